// idea: as gemm_tiled, for few tokens: SPLIT_K parts of the workgroup take K-tiles side by side; their sums are added last.
// grid: ceil_div(shard_rows, ROWS) * ceil_div(rows, TOKENS)
// default: 20
#import lib/op
#import lib/quant/* as w binding 2

const ROWS: u32 = 16u;          // tune: 8 16 32
const TOKENS: u32 = 32u;        // tune: 8 16 32
const REGISTER_TILE: u32 = 4u;  // tune: 2 4
const SPLIT_K: u32 = 4u;        // tune: 2 4 8
const K: u32 = 256u;            // op: k
const TILES_N: u32 = ROWS / REGISTER_TILE;
const PART_THREADS: u32 = TILES_N * (TOKENS / REGISTER_TILE);
const WG: u32 = PART_THREADS * SPLIT_K;
const SUMS: u32 = ROWS * TOKENS;
// Rows are padded so that adjacent ones fall into different banks.
const LD: u32 = 9u;

const_assert K % 32u == 0u;     // k in groups of 32

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [rows, k]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;    // [rows, m]

var<workgroup> tile_w: array<vec4<f32>, SPLIT_K * ROWS * LD>;
var<workgroup> tile_x: array<vec4<f32>, SPLIT_K * TOKENS * LD>;
var<workgroup> partial_sums: array<f32, SPLIT_K * SUMS>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let index = workgroup_index(workgroup, grid);
    let row_tiles = (params.shard_rows + ROWS - 1u) / ROWS;
    let row = (index % row_tiles) * ROWS;
    let token = (index / row_tiles) * TOKENS;
    if token >= params.rows {
        return;
    }
    let groups = params.k / 32u;
    let k_part = tid / PART_THREADS;
    let part_tid = tid % PART_THREADS;
    let thread_row = part_tid % TILES_N;
    let thread_token = part_tid / TILES_N;
    let at_w = k_part * ROWS * LD;
    let at_x = k_part * TOKENS * LD;
    var sums: array<f32, REGISTER_TILE * REGISTER_TILE>;
    for (var first = 0u; first < groups; first += SPLIT_K) {
        let group = first + k_part;
        if group < groups {
            // Rows and tokens are clamped; sums past the edges are dropped.
            for (var i = part_tid; i < ROWS; i += PART_THREADS) {
                let weights = w_load32(min(row + i, params.shard_rows - 1u) * groups + group);
                for (var j = 0u; j < 8u; j++) {
                    tile_w[at_w + i * LD + j] = weights[j];
                }
            }
            for (var i = part_tid; i < TOKENS * 8u; i += PART_THREADS) {
                let source = (min(token + i / 8u, params.rows - 1u) * groups + group) * 8u + i % 8u;
                tile_x[at_x + (i / 8u) * LD + i % 8u] = x[source];
            }
        }
        workgroupBarrier();
        if group < groups {
            for (var j = 0u; j < 8u; j++) {
                var xs: array<vec4<f32>, REGISTER_TILE>;
                for (var t = 0u; t < REGISTER_TILE; t++) {          // unroll
                    xs[t] = tile_x[at_x + (thread_token + t * (TOKENS / REGISTER_TILE)) * LD + j];
                }
                for (var i = 0u; i < REGISTER_TILE; i++) {          // unroll
                    let weights = tile_w[at_w + (thread_row + i * TILES_N) * LD + j];
                    for (var t = 0u; t < REGISTER_TILE; t++) {      // unroll
                        sums[i * REGISTER_TILE + t] += dot(weights, xs[t]);
                    }
                }
            }
        }
        workgroupBarrier();
    }
    for (var i = 0u; i < REGISTER_TILE; i++) {                      // unroll
        for (var t = 0u; t < REGISTER_TILE; t++) {                  // unroll
            let at = (thread_token + t * (TOKENS / REGISTER_TILE)) * ROWS + thread_row + i * TILES_N;
            partial_sums[k_part * SUMS + at] = sums[i * REGISTER_TILE + t];
        }
    }
    workgroupBarrier();
    for (var at = tid; at < SUMS; at += WG) {
        let at_row = row + at % ROWS;
        let at_token = token + at / ROWS;
        if at_row < params.shard_rows && at_token < params.rows {
            var sum = 0.0;
            for (var p = 0u; p < SPLIT_K; p++) {
                sum += partial_sums[p * SUMS + at];
            }
            store(at_token * params.m + params.first + at_row, sum);
        }
    }
}
