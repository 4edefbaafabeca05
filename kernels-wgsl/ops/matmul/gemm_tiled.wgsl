// idea: one workgroup per tile of ROWS rows by TOKENS tokens; K-tiles of 32 go through workgroup memory, dequantised once.
// grid: ceil_div(shard_rows, ROWS) * ceil_div(rows, TOKENS)
// default: 30
// A thread keeps a register tile of REGISTER_TILE x REGISTER_TILE sums.
#import lib/op
#import lib/quant/* as w binding 2

const ROWS: u32 = 32u;          // tune: 32 64 128
const TOKENS: u32 = 32u;        // tune: 16 32 64 128
const REGISTER_TILE: u32 = 4u;  // tune: 2 4 8
const K: u32 = 256u;            // op: k
const TILES_N: u32 = ROWS / REGISTER_TILE;
const WG: u32 = TILES_N * (TOKENS / REGISTER_TILE);
// Rows are padded so that adjacent ones fall into different banks.
const LD: u32 = 9u;

const_assert K % 32u == 0u;     // k in groups of 32

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [rows, k]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;    // [rows, m]

var<workgroup> tile_w: array<vec4<f32>, ROWS * LD>;
var<workgroup> tile_x: array<vec4<f32>, TOKENS * LD>;

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
    let thread_row = tid % TILES_N;
    let thread_token = tid / TILES_N;
    var sums: array<f32, REGISTER_TILE * REGISTER_TILE>;
    for (var group = 0u; group < groups; group++) {
        // Rows and tokens are clamped; sums past the edges are dropped.
        for (var i = tid; i < ROWS; i += WG) {
            let weights = w_load32(min(row + i, params.shard_rows - 1u) * groups + group);
            for (var j = 0u; j < 8u; j++) {
                tile_w[i * LD + j] = weights[j];
            }
        }
        for (var i = tid; i < TOKENS * 8u; i += WG) {
            tile_x[(i / 8u) * LD + i % 8u] = x[(min(token + i / 8u, params.rows - 1u) * groups + group) * 8u + i % 8u];
        }
        workgroupBarrier();
        for (var j = 0u; j < 8u; j++) {
            var xs: array<vec4<f32>, REGISTER_TILE>;
            for (var t = 0u; t < REGISTER_TILE; t++) {
                xs[t] = tile_x[(thread_token + t * (TOKENS / REGISTER_TILE)) * LD + j];
            }
            for (var i = 0u; i < REGISTER_TILE; i++) {
                let weights = tile_w[(thread_row + i * TILES_N) * LD + j];
                for (var t = 0u; t < REGISTER_TILE; t++) {
                    sums[i * REGISTER_TILE + t] += dot(weights, xs[t]);
                }
            }
        }
        workgroupBarrier();
    }
    for (var i = 0u; i < REGISTER_TILE; i++) {
        for (var t = 0u; t < REGISTER_TILE; t++) {
            let at_row = row + thread_row + i * TILES_N;
            let at_token = token + thread_token + t * (TOKENS / REGISTER_TILE);
            if at_row < params.shard_rows && at_token < params.rows {
                let at = at_token * params.m + params.first + at_row;
                let sum = sums[i * REGISTER_TILE + t];
                store(at, sum);
            }
        }
    }
}
