// idea: one thread per element of y: any size, any format.
// grid: ceil_div(4 * rows * m, WG)
// default: 50
#import lib/op
#import lib/quant/* as w_r binding 2
#import lib/quant/* as w_k binding 3
#import lib/quant/* as w_v binding 4
#import lib/quant/* as w1 binding 5
#import lib/quant/* as a1 binding 6
#import lib/quant/* as v1 binding 7
#import lib/quant/* as g1 binding 8

const WG: u32 = 64u;            // tune: 64 256

@group(0) @binding(1) var<storage, read> x: array<f32>;          // [6, rows, k]: planes r, w, k, v, a, g
@group(0) @binding(9) var<storage, read_write> y: array<f32>;    // [4, rows, m]: planes r, k, v, hidden values

fn matrix_value(matrix: u32, i: u32) -> f32 {
    switch matrix {
        case 0u: { return w_r_value(i); }
        case 1u: { return w_k_value(i); }
        case 2u: { return w_v_value(i); }
        case 3u: { return w1_value(i); }
        case 4u: { return a1_value(i); }
        case 5u: { return v1_value(i); }
        default: { return g1_value(i); }
    }
}

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
    // Which matrix, and which of its rows; behind the adapters' rows there is none.
    var matrix = i / plane;
    var row = i % params.m;
    if matrix == 3u {
        while matrix < 7u && row >= params.ranks[matrix - 3u] {
            row -= params.ranks[matrix - 3u];
            matrix++;
        }
    }
    if matrix == 7u {
        y[i] = 0.0;
        return;
    }
    var planes = array(0u, 2u, 3u, 1u, 4u, 3u, 5u);
    let start = planes[matrix] * plane + (i % plane) / params.m * params.k;
    var sum = 0.0;
    for (var c = 0u; c < params.k; c++) {
        sum += x[start + c] * matrix_value(matrix, row * params.k + c);
    }
    var kinds = array(NONE, NONE, NONE, TANH, NONE, NONE, SIGMOID);
    y[i] = activate(kinds[matrix], sum);
}
