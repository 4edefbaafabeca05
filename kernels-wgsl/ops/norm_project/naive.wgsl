// idea: one thread per element of a token's row of y: any size, any format.
// grid: rows * ceil_div(5 * m, WG)
// default: 20
#import lib/norm_naive
#import lib/quant/* as w_r binding 8
#import lib/quant/* as w_k binding 9
#import lib/quant/* as w_v binding 10
#import lib/quant/* as w1 binding 11
#import lib/quant/* as a1 binding 12
#import lib/quant/* as v1 binding 13
#import lib/quant/* as g1 binding 14

const WG: u32 = 64u;            // tune: 64 256

@group(0) @binding(15) var<storage, read_write> y: array<f32>;    // [5, tokens, m]: r, k, v, hidden values, normed row

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
    thread: Thread,
) {
    let index = workgroup_index(workgroup, grid);
    let blocks = (5u * params.m + WG - 1u) / WG;
    let token = index / blocks;
    if token >= params.rows {
        return;
    }
    let rows = norm_rows(token, thread);
    let i = index % blocks * WG + thread.tid;
    if i >= 5u * params.m {
        return;
    }
    // Which matrix, and which of its rows; behind the adapters' rows there is none, and none makes the normed row.
    let plane = i / params.m;
    let at = (plane * params.rows + token) * params.m + i % params.m;
    if plane == 4u {
        y[at] = normed(rows.own, rows.own_norm, i % params.m);
        return;
    }
    var matrix = plane;
    var row = i % params.m;
    if matrix == 3u {
        while matrix < 7u && row >= params.ranks[matrix - 3u] {
            row -= params.ranks[matrix - 3u];
            matrix++;
        }
    }
    if matrix == 7u {
        y[at] = 0.0;
        return;
    }
    var planes = array(0u, 2u, 3u, 1u, 4u, 3u, 5u);
    var sum = 0.0;
    for (var c = 0u; c < params.k; c++) {
        sum += shifted(rows, planes[matrix], c) * matrix_value(matrix, row * params.k + c);
    }
    var kinds = array(NONE, NONE, NONE, TANH, NONE, NONE, SIGMOID);
    y[at] = activate(kinds[matrix], sum);
}
