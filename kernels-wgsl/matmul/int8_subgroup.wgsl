// As dot_subgroup.wgsl with x rounded to int8: products of four at once. Every workgroup rounds the columns of TOKENS
// tokens itself, SLAB of them at a time, so that there is no other dispatch to wait for.
#import params
#import unit
#import epilogue
#import reduce_lanes
#import columns_int8
#import piece/q4_k as w binding 2

const K: u32 = 256u;            // op: k
const WG: u32 = 128u;           // tune: 64 128 256
const LANES: u32 = 32u;         // tune: 8 16 32
const ROWS: u32 = 2u;           // tune: 1 2 4
const TOKENS: u32 = 1u;         // tune: 1 2 4 8 16
const SLAB: u32 = 2560u;        // tune: 1280 2560 10240
const GROUPS: u32 = WG / LANES;
const SLAB_RUNS: u32 = min(SLAB, K) / 16u;
const RUNS: u32 = TOKENS * SLAB_RUNS;

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit = unit_of(workgroup, grid);
    let row_blocks = (params.window + GROUPS * ROWS - 1u) / (GROUPS * ROWS);
    let token = unit / row_blocks * TOKENS;
    if token >= params.rows {
        return;
    }
    let row = ((unit % row_blocks) * GROUPS + lane / LANES) * ROWS;
    let own = lane % LANES;
    var sums: array<f32, ROWS * TOKENS>;
    for (var slab = 0u; slab < K; slab += SLAB) {
        let end = min(slab + SLAB, K);
        if slab > 0u {
            workgroupBarrier();
        }
        // Past the last row or token the last one is read again; its sums are not stored.
        for (var t = 0u; t < TOKENS; t++) {
            let begin = (min(token + t, params.rows - 1u) * K + slab) / 16u;
            hold_runs(lane, begin, t * SLAB_RUNS, (end - slab) / 16u);
        }
        workgroupBarrier();
        for (var piece = slab / w_span + own; piece < end / w_span; piece += LANES) {
            var taken: array<w_piece, ROWS>;
            for (var i = 0u; i < ROWS; i++) {           // unroll
                taken[i] = w_take(min(row + i, params.window - 1u), piece);
            }
            for (var t = 0u; t < TOKENS; t++) {         // unroll
                let columns = w_meet(t * SLAB_RUNS, piece - slab / w_span);
                for (var i = 0u; i < ROWS; i++) {       // unroll
                    sums[i * TOKENS + t] += w_dot(taken[i], columns);
                }
            }
        }
    }
    for (var i = 0u; i < ROWS; i++) {                   // unroll
        for (var t = 0u; t < TOKENS; t++) {             // unroll
            let sum = lanes_sum(sums[i * TOKENS + t]);
            if own == 0u && row + i < params.window && token + t < params.rows {
                store((token + t) * params.m + params.first + row + i, sum);
            }
        }
    }
}
