// idea: one thread per token, adapter and channel: any size, any format.
// grid: ceil_div(4 * rows * m, WG)
// default: 30
// x holds the adapters' hidden values side by side, perhaps in a wider row; y has planes decay, in-context learning rate, value
// gate, gate. Without a value adapter (rank 0) its plane is left alone.
#import lib/op
#import lib/quant/* as w2 binding 2
#import lib/quant/* as a2 binding 3
#import lib/quant/* as v2 binding 4
#import lib/quant/* as g2 binding 5
#import lib/vector as w0 binding 6
#import lib/vector as a0 binding 7
#import lib/vector as v0 binding 8

const WG: u32 = 64u;    // tune: 64 128 256

@group(0) @binding(1) var<storage, read> x: array<f32>;          // [rows, k]: hidden values w, a, v, g side by side
@group(0) @binding(9) var<storage, read_write> y: array<f32>;    // [4, rows, m]: planes decay, a, value gate, g

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let i = workgroup_index(workgroup, grid) * WG + tid;
    let plane = params.rows * params.m;
    if i >= 4u * plane {
        return;
    }
    let token = (i % plane) / params.m;
    let c = i % params.m;
    let ranks = params.ranks;
    let start = token * params.k;
    switch i / plane {
        case 0u: {
            var sum = w0_value(c);
            for (var j = 0u; j < ranks.x; j++) {
                sum += x[start + j] * w2_value(c * ranks.x + j);
            }
            y[i] = activate(DECAY, sum);
        }
        case 1u: {
            var sum = a0_value(c);
            for (var j = 0u; j < ranks.y; j++) {
                sum += x[start + ranks.x + j] * a2_value(c * ranks.y + j);
            }
            y[i] = sigmoid(sum);
        }
        case 2u: {
            if ranks.z > 0u {
                var sum = v0_value(c);
                for (var j = 0u; j < ranks.z; j++) {
                    sum += x[start + ranks.x + ranks.y + j] * v2_value(c * ranks.z + j);
                }
                y[i] = sigmoid(sum);
            }
        }
        default: {
            var sum = 0.0;
            for (var j = 0u; j < ranks.w; j++) {
                sum += x[start + ranks.x + ranks.y + ranks.z + j] * g2_value(c * ranks.w + j);
            }
            y[i] = sum;
        }
    }
}
