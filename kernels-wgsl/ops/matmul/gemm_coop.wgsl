// idea: a workgroup computes a tile on the matrix units, x split in two f16 so that sums are those of f32.
// needs: subgroups f16 cooperative-matrix
// grid: shard_rows / TILE_ROWS * ceil_div(rows, TILE_TOKENS)
// prune: up_to_rows >= 16      so few tokens leave most of a tile empty
// prune: K >= 16u * SPLIT_K * K_STEPS * PREFETCH_DEPTH      fewer columns than are in flight
// prune: K_STEPS * PREFETCH_DEPTH * TILE_ROWS / 16u <= 8u      register pressure
// default: 10
enable f16;
enable wgpu_cooperative_matrix;
#import lib/op
#import lib/quant/* as w binding 2
#import lib/coop_tile as w

const K: u32 = 256u;            // op: k
const TILE_ROWS: u32 = 32u;     // tune: 16 32 64
const TILE_TOKENS: u32 = 16u;   // tune: 16 32
const SPLIT_K: u32 = 8u;        // tune: 4 8
const K_STEPS: u32 = 2u;        // tune: 1 2
const PREFETCH_DEPTH: u32 = 2u; // tune: 1 2 4 8
const WG: u32 = SPLIT_K * 32u;
const SHARD_ROWS: u32 = 256u;   // op: shard_rows

const_assert K % 16u == 0u;                 // matrix units take 16 columns at a time
const_assert SHARD_ROWS % TILE_ROWS == 0u;  // tiles end where the rows do
const_assert TILE_ROWS * HALF8S % WG == 0u && TILE_TOKENS * VEC4S % WG == 0u;   // every thread stages as much

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

fn store_sum_of_tile(first_token: u32, row: u32, token: u32, sum: f32) {
    if first_token + token < params.rows {
        store((first_token + token) * params.m + params.first + row, sum);
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
    @builtin(subgroup_id) k_part: u32,
) {
    // No thread returns early: matrix units need whole subgroups.
    let index = workgroup_index(workgroup, grid);
    let row_tiles = params.shard_rows / TILE_ROWS;
    let token = index / row_tiles * TILE_TOKENS;
    w_tile(token, index % row_tiles * TILE_ROWS, token, params.rows - 1u, k_part, tid);
}
