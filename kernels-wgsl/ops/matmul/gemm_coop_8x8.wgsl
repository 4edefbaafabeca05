// idea: a workgroup computes a tile on matrix units of 8 x 8, x and weights that are no f16 split in two f16 so that sums are those of f32.
// needs: subgroups f16 cooperative-matrix-8x8
// grid: ceil_div(shard_rows, TILE_ROWS) * ceil_div(rows, TILE_TOKENS)
enable f16;
enable wgpu_cooperative_matrix;
#import lib/op
#import lib/quant/* as w binding 2
#import lib/limbs

const K: u32 = 256u;            // op: k
const TILE_ROWS: u32 = 32u;     // tune: 16 32 64
const TILE_TOKENS: u32 = 16u;   // tune: 8 16 32
const K_STEPS: u32 = 4u;        // tune: 4 8
const SUBGROUP: u32 = 32u;      // device: min_subgroup
// A subgroup has eight rows of the tile and all its tokens.
const TILES_N: u32 = TILE_ROWS / 8u;
const TILES_M: u32 = TILE_TOKENS / 8u;
const WG: u32 = TILES_N * SUBGROUP;
const TILE_K: u32 = K_STEPS * 8u;
const GROUPS: u32 = TILE_K / 32u;
// Rows are padded so that adjacent ones fall into different banks.
const LD: u32 = TILE_K + 8u;
// The formats F16 and F16_KM: a weight is its own high limb, and has no low one.
const SPLIT_WEIGHTS: bool = w_format != 2u && w_format != 12u;
// The low limb of a weight is multiplied by 2048: times the high limb of x it counts as the high limb of a weight times
// the low
// limb of x, and has the same sums.
const WEIGHT_LOW: f32 = LOW / HIGH;

const_assert K % TILE_K == 0u;  // K-tiles are whole, in groups of 32

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [rows, k]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;    // [rows, m]

// Scalars: Metal loads and stores matrices through pointers to their components.
var<workgroup> weights_high: array<f16, TILE_ROWS * LD>;
var<workgroup> weights_low: array<f16, TILE_ROWS * LD>;
var<workgroup> tokens_high: array<f16, TILE_TOKENS * LD>;
var<workgroup> tokens_low: array<f16, TILE_TOKENS * LD>;
var<workgroup> tile_sums: array<f32, TILES_N * TILES_M * 128u>;

// Rows and tokens are clamped; sums past the edges are dropped.
fn stage_weights(row: u32, group: u32, at: u32) {
    let groups = params.k / 32u;
    let last = params.shard_rows - 1u;
    let weights = w_load32(min(row + at / GROUPS, last) * groups + group + at % GROUPS);
    let to = at / GROUPS * LD + at % GROUPS * 32u;
    for (var j = 0u; j < 8u; j++) {
        let high = nearest_f16s(weights[j]);
        let low = (weights[j] - high) * (1.0 / WEIGHT_LOW);
        for (var c = 0u; c < 4u; c++) {         // unroll
            weights_high[to + j * 4u + c] = f16(high[c]);
            if SPLIT_WEIGHTS {
                weights_low[to + j * 4u + c] = f16(low[c]);
            }
        }
    }
}

fn stage_tokens(token: u32, group: u32, at: u32) {
    let vec4s = TILE_K / 4u;
    let values = x[(min(token + at / vec4s, params.rows - 1u) * (params.k / 32u) + group) * 8u + at % vec4s];
    let to = at / vec4s * LD + at % vec4s * 4u;
    let high = nearest_f16s(values * (1.0 / HIGH));
    let low = (values - high * HIGH) * (1.0 / LOW);
    for (var c = 0u; c < 4u; c++) {             // unroll
        tokens_high[to + c] = f16(high[c]);
        tokens_low[to + c] = f16(low[c]);
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
    @builtin(subgroup_id) part: u32,
) {
    // No thread returns early: matrix units need whole subgroups.
    let index = workgroup_index(workgroup, grid);
    let row_tiles = (params.shard_rows + TILE_ROWS - 1u) / TILE_ROWS;
    let row = index % row_tiles * TILE_ROWS;
    let token = index / row_tiles * TILE_TOKENS;
    var high_sums: array<coop_mat8x8<f32, C>, TILES_M>;
    var low_sums: array<coop_mat8x8<f32, C>, TILES_M>;
    for (var group = 0u; group < K / 32u; group += GROUPS) {
        for (var at = tid; at < TILE_ROWS * GROUPS; at += WG) {
            stage_weights(row, group, at);
        }
        for (var at = tid; at < TILE_TOKENS * TILE_K / 4u; at += WG) {
            stage_tokens(token, group, at);
        }
        workgroupBarrier();
        for (var step = 0u; step < K_STEPS; step++) {
            let first = part * 8u * LD + step * 8u;
            let rows = coopLoad<coop_mat8x8<f16, B>>(&weights_high[first], LD);
            for (var t = 0u; t < TILES_M; t++) {            // unroll
                let high = coopLoadT<coop_mat8x8<f16, A>>(&tokens_high[t * 8u * LD + step * 8u], LD);
                let low = coopLoadT<coop_mat8x8<f16, A>>(&tokens_low[t * 8u * LD + step * 8u], LD);
                high_sums[t] = coopMultiplyAdd(high, rows, high_sums[t]);
                low_sums[t] = coopMultiplyAdd(low, rows, low_sums[t]);
                if SPLIT_WEIGHTS {
                    let rows_low = coopLoad<coop_mat8x8<f16, B>>(&weights_low[first], LD);
                    low_sums[t] = coopMultiplyAdd(high, rows_low, low_sums[t]);
                }
            }
        }
        workgroupBarrier();
    }
    for (var t = 0u; t < TILES_M; t++) {                    // unroll
        let first = (part * TILES_M + t) * 128u;
        coopStoreT(high_sums[t], &tile_sums[first], 8u);
        coopStoreT(low_sums[t], &tile_sums[first + 64u], 8u);
    }
    workgroupBarrier();
    for (var at = tid; at < TILE_ROWS * TILE_TOKENS; at += WG) {
        let tile = at / 64u;
        let first = tile * 128u + at % 64u;
        let at_row = row + tile / TILES_M * 8u + at % 8u;
        let at_token = token + tile % TILES_M * 8u + at % 64u / 8u;
        if at_row < params.shard_rows && at_token < params.rows {
            let sum = tile_sums[first] * HIGH + tile_sums[first + 64u] * LOW;
            store(at_token * params.m + params.first + at_row, sum);
        }
    }
}
