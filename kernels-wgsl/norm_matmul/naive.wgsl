// One invocation per row of w and token, any size, any format: the plainest thing that is right.
#import unit
#import naive_norm
#import epilogue
#import weight/f16 as w binding 8

const WG: u32 = 64u;            // tune: 64 256

@group(0) @binding(9) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit = unit_of(workgroup, grid);
    let blocks = (params.window + WG - 1u) / WG;
    let token = unit / blocks;
    if token >= params.rows {
        return;
    }
    let rows = rows_at(token, lane);
    if unit % blocks == 0u {
        for (var c = lane; c < params.k; c += WG) {
            y[(params.rows + token) * params.m + c] = normed(rows.own, rows.own_moments, c);
        }
    }
    let row = unit % blocks * WG + lane;
    if row < params.window {
        var sum = 0.0;
        for (var c = 0u; c < params.k; c++) {
            sum += mixed(rows, 0u, c) * w_at(row * params.k + c);
        }
        store(token * params.m + params.first + row, sum);
    }
}
