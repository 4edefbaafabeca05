// One workgroup per segment and COLS columns. LANES invocations share a column: lane l adds the tokens l, l + LANES, ...;
// then the lanes' sums are added in order. Where a segment lies in the batch changes no bit.
#import params
#import unit

const COLS: u32 = 32u;      // tune: 8 32
const LANES: u32 = 8u;      // tune: 4 8 32
const WG: u32 = COLS * LANES;

@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> segments: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

var<workgroup> sums: array<f32, WG>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let blocks = (params.m + COLS - 1u) / COLS;
    let unit = unit_of(workgroup, grid);
    let number = unit / blocks;
    if number >= params.rows {
        return;
    }
    let segment = segments[number];
    let column = unit % blocks * COLS + lane % COLS;
    var sum = 0.0;
    if column < params.m {
        for (var t = lane / COLS; t < segment.y; t += LANES) {
            sum += x[(segment.x + t) * params.m + column];
        }
    }
    sums[lane] = sum;
    workgroupBarrier();
    if lane < COLS && column < params.m {
        var total = sums[lane];
        for (var l = 1u; l < LANES; l++) {
            total += sums[l * COLS + lane];
        }
        y[number * params.m + column] = total;
    }
}
