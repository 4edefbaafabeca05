// As columns_f32.wgsl, with the columns of x in workgroup memory. Needs `const WG` and `const RUNS`: how many runs there is
// room for.
#import columns_f32

const ROOM: u32 = RUNS * 4u;
var<workgroup> room: array<vec4<u32>, ROOM>;

// Holds `count` runs of x from run `begin` on, in the places from `place` on.
fn hold_runs(lane: u32, begin: u32, place: u32, count: u32) {
    for (var i = lane; i < count * 4u; i += WG) {
        room[place * 4u + i] = bitcast<vec4<u32>>(x[begin * 4u + i]);
    }
}

fn x_quad(i: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(room[i]);
}
