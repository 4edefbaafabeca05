// One workgroup per ROWS rows and TOKENS tokens; invocations take groups of 32 weights, sums meet in workgroup memory.
#import params
#import unit
#import epilogue
#import reduce_workgroup
#import weight/f16 as w binding 2

const WG: u32 = 64u;           // tune: 32 64 128 256
const ROWS: u32 = 2u;           // tune: 1 2 4
const TOKENS: u32 = 1u;         // tune: 1 2 4

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit = unit_of(workgroup, grid);
    let row_blocks = (params.window + ROWS - 1u) / ROWS;
    let row = (unit % row_blocks) * ROWS;
    let token = (unit / row_blocks) * TOKENS;
    if token >= params.rows {
        return;
    }
    let groups = params.k / 32u;
    var sums: array<f32, ROWS * TOKENS>;
    for (var group = lane; group < groups; group += WG) {
        for (var i = 0u; i < ROWS; i++) {
            // Past the last row the last one is read again; its sum is not stored.
            let weights = w_load32(min(row + i, params.window - 1u) * groups + group);
            for (var t = 0u; t < TOKENS; t++) {
                let at = (min(token + t, params.rows - 1u) * groups + group) * 8u;
                var sum = 0.0;
                for (var j = 0u; j < 8u; j++) {
                    sum += dot(weights[j], x[at + j]);
                }
                sums[i * TOKENS + t] += sum;
            }
        }
    }
    for (var i = 0u; i < ROWS; i++) {
        for (var t = 0u; t < TOKENS; t++) {
            let sum = workgroup_sum(lane, sums[i * TOKENS + t]);
            if lane == 0u && row + i < params.window && token + t < params.rows {
                let at = (token + t) * params.m + params.first + row + i;
                store(at, sum);
            }
        }
    }
}
