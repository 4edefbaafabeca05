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

// Of the subgroups, which have at least 4 invocations: how many columns they have, their mean, and the sum of squares about
// that mean.
var<workgroup> counts: array<f32, WG / 4u>;
var<workgroup> partials: array<vec2<f32>, WG / 4u>;

fn quads_of(row: u32, lane: u32) -> array<vec4<f32>, OWN> {
    var quads: array<vec4<f32>, OWN>;
    for (var i = 0u; i < OWN; i++) {        // unroll
        if lane + i * WG < QUADS {
            quads[i] = x[row * QUADS + lane + i * WG];
        }
    }
    return quads;
}

// Mean and 1 / deviation of a row, with one barrier: subgroups sum squares about their own means, which are then compared
// with that of the first (Chan, Golub, LeVeque 1983), so that a row far from 0 loses nothing.
fn moments(place: Place, quads: array<vec4<f32>, OWN>) -> vec2<f32> {
    var sum = vec2(0.0);                    // of the columns, and how many there are
    for (var i = 0u; i < OWN; i++) {        // unroll
        if place.lane + i * WG < QUADS {
            sum += vec2(dot(quads[i], vec4(1.0)), 4.0);
        }
    }
    sum = subgroupAdd(sum);
    let mean = sum.x / max(sum.y, 1.0);
    var squares = 0.0;
    for (var i = 0u; i < OWN; i++) {        // unroll
        if place.lane + i * WG < QUADS {
            let d = quads[i] - mean;
            squares += dot(d, d);
        }
    }
    squares = subgroupAdd(squares);
    if place.subgroup_lane == 0u {
        counts[place.subgroup] = sum.y;
        partials[place.subgroup] = vec2(mean, squares);
    }
    workgroupBarrier();
    let pivot = partials[0].x;
    var all = vec2(0.0);                    // sums of differences from the pivot, and of their squares
    for (var block = 0u; block < place.subgroups; block += WG / place.subgroups) {
        let i = block + place.subgroup_lane;
        if i < place.subgroups {
            let part = partials[i];
            let d = part.x - pivot;
            all += vec2(counts[i] * d, part.y + counts[i] * d * d);
        }
    }
    let means = subgroupAdd(all) / f32(K);
    return vec2(pivot + means.x, inverseSqrt(max(means.y - means.x * means.x, 0.0) + params.eps));
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
        workgroupBarrier();
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
