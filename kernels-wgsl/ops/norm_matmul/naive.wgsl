// idea: one thread per row of w and token: any size, any format.
// grid: rows * ceil_div(shard_rows, WG)
// default: 20
#import lib/norm_naive
#import lib/quant/* as w binding 8

const WG: u32 = 64u;            // tune: 64 256

@group(0) @binding(9) var<storage, read_write> y: array<f32>;    // [2, tokens, m]: the product, the normed row

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    thread: Thread,
) {
    let index = workgroup_index(workgroup, grid);
    let blocks = (params.shard_rows + WG - 1u) / WG;
    let token = index / blocks;
    if token >= params.rows {
        return;
    }
    let rows = norm_rows(token, thread);
    if index % blocks == 0u {
        for (var c = thread.tid; c < params.k; c += WG) {
            y[(params.rows + token) * params.m + c] = normed(rows.own, rows.own_norm, c);
        }
    }
    let row = index % blocks * WG + thread.tid;
    if row < params.shard_rows {
        var sum = 0.0;
        for (var c = 0u; c < params.k; c++) {
            sum += shifted(rows, 0u, c) * w_value(row * params.k + c);
        }
        store(token * params.m + params.first + row, sum);
    }
}
