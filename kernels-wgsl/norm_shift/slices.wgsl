// As workgroup.wgsl, for few tokens: a token's columns are shared out among workgroups, SLICE each. Every one of them
// norms the whole row for itself, which costs less than to wait for one that does.
#import params
#import unit
#import reduce_subgroup

const PLANES: u32 = 6u; // op: planes
const K: u32 = 256u;    // op: k
const WG: u32 = 256u;   // tune: 128 256 512
const SLICE: u32 = 256u;    // tune: 128 256 512
const QUADS: u32 = K / 4u;

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> scale: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> mix: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> state: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> token_segments: array<u32>;
@group(0) @binding(7) var<storage, read> segments: array<vec4<u32>>;
@group(0) @binding(8) var<storage, read_write> y: array<vec4<f32>>;

// How this invocation meets the others of its workgroup.
struct Place {
    lane: u32,
    subgroup: u32,
    subgroups: u32,
    subgroup_lane: u32,
}

fn total(place: Place, value: f32) -> f32 {
    return workgroup_sum(place.subgroup, place.subgroups, place.subgroup_lane, value);
}

// Mean and 1 / deviation of a row.
fn moments(place: Place, start: u32) -> vec2<f32> {
    var sum = vec4<f32>();
    for (var q = place.lane; q < QUADS; q += WG) {
        sum += x[start + q];
    }
    let mean = total(place, dot(sum, vec4(1.0))) / f32(K);
    var squares = 0.0;
    for (var q = place.lane; q < QUADS; q += WG) {
        let d = x[start + q] - mean;
        squares += dot(d, d);
    }
    return vec2(mean, inverseSqrt(total(place, squares) / f32(K) + params.eps));
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) subgroup_lane: u32,
) {
    let unit = unit_of(workgroup, grid);
    let slices = (K + SLICE - 1u) / SLICE;
    let token = unit / slices;
    if token >= params.rows {
        return;
    }
    let segment = segments[token_segments[token]];
    let is_first = token == segment.x;
    let start = token * QUADS;
    // The other row that matters: the one before, or, for the first token, the last one, bound for the state.
    let other = select(token - 1u, segment.x + segment.y - 1u, is_first) * QUADS;
    let q = (unit % slices) * (SLICE / 4u) + lane;
    let is_own = lane < SLICE / 4u && q < QUADS;

    // What does not wait for the norm is on its way meanwhile.
    var from_state: vec4<f32>;
    var scales: vec4<f32>;
    var biases: vec4<f32>;
    if is_own {
        scales = scale[q];
        biases = bias[q];
        if is_first {
            from_state = state[segment.z * QUADS + q];
        }
    }
    let place = Place(lane, subgroup, subgroups, subgroup_lane);
    let own_moments = moments(place, start);
    var other_moments = own_moments;
    if other != start {
        other_moments = moments(place, other);
    }
    if !is_own {
        return;
    }
    let own = (x[start + q] - own_moments.x) * own_moments.y * scales + biases;
    var before = (x[other + q] - other_moments.x) * other_moments.y * scales + biases;
    if is_first {
        state[segment.z * QUADS + q] = before;
        before = from_state;
    }
    for (var plane = 0u; plane < PLANES; plane++) {
        y[(plane * params.rows + token) * QUADS + q] = own + (before - own) * mix[plane * QUADS + q];
    }
}
