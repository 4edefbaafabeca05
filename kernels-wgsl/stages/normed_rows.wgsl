// The layer norm of a token's row and of the row before it, which may be the state, by a whole workgroup: every invocation
// keeps OWN quads of four columns in registers, WG apart. Needs `const K, WG`.
#import params
#import others

const QUADS: u32 = K / 4u;
const OWN: u32 = (QUADS + WG - 1u) / WG;

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> scale: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> mix: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> state: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> token_segments: array<u32>;
@group(0) @binding(7) var<storage, read> segments: array<vec4<u32>>;

// How this invocation meets the others of its workgroup.
struct Place {
    lane: u32,
    subgroup: u32,
    subgroups: u32,
    subgroup_lane: u32,
}

struct Rows {
    own: array<vec4<f32>, OWN>,
    step: array<vec4<f32>, OWN>,    // from the token's row to the one before
}

// Sums of the subgroups, which have at least 4 invocations: for the mean, and for the variance.
var<workgroup> partials: array<f32, WG / 2u>;

// Two sums after one another need no barrier but their own, where `half` is 0 and 1 in turn.
fn total(place: Place, half: u32, value: f32) -> f32 {
    let own = subgroupAdd(value);
    if place.subgroup_lane == 0u {
        partials[half * (WG / 4u) + place.subgroup] = own;
    }
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < place.subgroups; i++) {
        sum += partials[half * (WG / 4u) + i];
    }
    return sum;
}

fn quads_of(row: u32, lane: u32) -> array<vec4<f32>, OWN> {
    var quads: array<vec4<f32>, OWN>;
    for (var i = 0u; i < OWN; i++) {        // unroll
        if lane + i * WG < QUADS {
            quads[i] = x[row * QUADS + lane + i * WG];
        }
    }
    return quads;
}

// Mean and 1 / deviation of a row.
fn moments(place: Place, quads: array<vec4<f32>, OWN>) -> vec2<f32> {
    var sum = 0.0;
    for (var i = 0u; i < OWN; i++) {        // unroll
        sum += dot(quads[i], vec4(1.0));
    }
    let mean = total(place, 0u, sum) / f32(K);
    var squares = 0.0;
    for (var i = 0u; i < OWN; i++) {        // unroll
        if place.lane + i * WG < QUADS {
            let d = quads[i] - mean;
            squares += dot(d, d);
        }
    }
    return vec2(mean, inverseSqrt(total(place, 1u, squares) / f32(K) + params.eps));
}

// What a norm needs besides x.
struct Around {
    segment: vec4<u32>,
    scales: array<vec4<f32>, OWN>,
    biases: array<vec4<f32>, OWN>,
    before: array<vec4<f32>, OWN>,  // the row before the segment's first
}

fn around(token: u32, lane: u32) -> Around {
    var around: Around;
    // Where there is one row in all, there is one segment.
    var number = 0u;
    if params.rows > 1u {
        number = token_segments[token];
    }
    around.segment = segments[number];
    for (var i = 0u; i < OWN; i++) {        // unroll
        if lane + i * WG < QUADS {
            around.scales[i] = scale[lane + i * WG];
            around.biases[i] = bias[lane + i * WG];
            around.before[i] = state[around.segment.z * QUADS + lane + i * WG];
        }
    }
    return around;
}

fn normed_rows(place: Place, token: u32, around: Around) -> Rows {
    let lane = place.lane;
    let own = quads_of(token, lane);
    var before = around.before;
    var rows: Rows;
    let of_own = moments(place, own);
    for (var i = 0u; i < OWN; i++) {        // unroll
        rows.own[i] = (own[i] - of_own.x) * of_own.y * around.scales[i] + around.biases[i];
    }
    // Where there is one row in all, compilers see that there is none before it.
    if params.rows > 1u && token != around.segment.x {
        let other = quads_of(token - 1u, lane);
        let of_other = moments(place, other);
        for (var i = 0u; i < OWN; i++) {    // unroll
            before[i] = (other[i] - of_other.x) * of_other.y * around.scales[i] + around.biases[i];
        }
    }
    for (var i = 0u; i < OWN; i++) {        // unroll
        rows.step[i] = before[i] - rows.own[i];
    }
    return rows;
}

// This invocation's columns of a mix.
fn mixes_of(plane: u32, lane: u32) -> array<vec4<f32>, OWN> {
    var mixes: array<vec4<f32>, OWN>;
    for (var i = 0u; i < OWN; i++) {        // unroll
        if lane + i * WG < QUADS {
            mixes[i] = mix[plane * QUADS + lane + i * WG];
        }
    }
    return mixes;
}

// Stores the normed row from `at` on.
fn store_row(rows: Rows, lane: u32, at: u32) {
    for (var i = 0u; i < OWN; i++) {        // unroll
        let q = lane + i * WG;
        if q < QUADS {
            y[at + 4u * q] = rows.own[i].x;
            y[at + 4u * q + 1u] = rows.own[i].y;
            y[at + 4u * q + 2u] = rows.own[i].z;
            y[at + 4u * q + 3u] = rows.own[i].w;
        }
    }
}
