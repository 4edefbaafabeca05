// idea: w_r, w_k and w_v in tiles on the matrix units, for some dozens of tokens, the adapters as in gemv_batched.
// needs: subgroups f16 cooperative-matrix
// grid: 3 * (m / TILE_ROWS) * ceil_div(rows, TILE_TOKENS) + ADAPTER_BLOCKS * ceil_div(rows, TOKENS)
// prune: up_to_rows >= 16      so few tokens leave most of a tile empty
// prune: K >= 16u * SPLIT_K * K_STEPS * PREFETCH_DEPTH      fewer columns than are in flight
// prune: K_STEPS * PREFETCH_DEPTH * TILE_ROWS / 16u <= 8u      register pressure
// prune: TOKENS <= up_to_rows      more tokens per workgroup than there are
// prune: ROWS * TOKENS <= 16u      loops are unrolled for four adapters: drivers take minutes for more sums
// default: 10
enable f16;
enable wgpu_cooperative_matrix;
#import lib/x/f32
#import lib/project
#import lib/coop_tile as w_r
#import lib/coop_tile as w_k
#import lib/coop_tile as w_v

const K: u32 = 256u;            // op: k
const TILE_ROWS: u32 = 32u;     // tune: 16 32
const TILE_TOKENS: u32 = 16u;   // tune: 16 32
const SPLIT_K: u32 = 4u;        // tune: 4 8
const K_STEPS: u32 = 1u;        // tune: 1 2
const PREFETCH_DEPTH: u32 = 2u; // tune: 1 2 4
const ROWS: u32 = 2u;           // tune: 1 2
const TOKENS: u32 = 4u;         // tune: 4 8
const THREADS_PER_ROW: u32 = 32u;
const UNROLL: u32 = 1u;
const WG: u32 = SPLIT_K * 32u;
const BLOCK_ROWS: u32 = SPLIT_K * ROWS;

const_assert K % 32u == 0u;             // matrix units take 16 columns at a time, adapters groups of 32
const_assert M % TILE_ROWS == 0u;       // tiles end where the rows do
const_assert TILE_ROWS * HALF8S % WG == 0u && TILE_TOKENS * VEC4S % WG == 0u;   // every thread stages as much

// `first_token` is the matrix's first token in y.
fn store_sum_of_tile(first_token: u32, row: u32, token: u32, sum: f32) {
    if first_token % params.rows + token < params.rows {
        y[(first_token + token) * params.m + row] = sum;
    }
}

fn dot_adapter_rows(block: RowBlock, row: u32, row_lane: u32) -> array<f32, ROWS * TOKENS> {
    let plane = plane_of(block.matrix) * params.rows;
    let last = rows_of(block.matrix) - 1u;
    let token = plane + block.token;
    let last_token = plane + params.rows - 1u;
    switch block.matrix {
        case 3u: { return w1_dot_rows(row, last, token, last_token, row_lane); }
        case 4u: { return a1_dot_rows(row, last, token, last_token, row_lane); }
        case 5u: { return v1_dot_rows(row, last, token, last_token, row_lane); }
        default: { return g1_dot_rows(row, last, token, last_token, row_lane); }
    }
}

fn project_adapter(block: RowBlock, tid: u32) {
    let row = tid / THREADS_PER_ROW * ROWS;
    let row_lane = tid % THREADS_PER_ROW;
    var sums = dot_adapter_rows(block, block.row + row, row_lane);
    for (var i = 0u; i < ROWS; i++) {           // unroll
        for (var t = 0u; t < TOKENS; t++) {     // unroll
            let sum = row_sum(sums[i * TOKENS + t]);
            if row_lane == 0u {
                store_sum(block, row + i, t, sum);
            }
        }
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
    @builtin(subgroup_id) k_part: u32,
) {
    let index = workgroup_index(workgroup, grid);
    let row_tiles = params.m / TILE_ROWS;
    let tiles = row_tiles * ((params.rows + TILE_TOKENS - 1u) / TILE_TOKENS);
    let row = index % row_tiles * TILE_ROWS;
    let token = index % tiles / row_tiles * TILE_TOKENS;
    let rows = params.rows;
    switch index / tiles {
        case 0u: {
            w_r_tile(token, row, token, rows - 1u, k_part, tid);
        }
        case 1u: {
            w_k_tile(rows + token, row, 2u * rows + token, 3u * rows - 1u, k_part, tid);
        }
        case 2u: {
            w_v_tile(2u * rows + token, row, 3u * rows + token, 4u * rows - 1u, k_part, tid);
        }
        default: {
            let block = row_block_among(index - 3u * tiles, 4u);
            if block.matrix == REST {
                clear_rest(block, tid);
            } else {
                project_adapter(block, tid);
            }
        }
    }
}
