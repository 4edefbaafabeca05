// All that a time mix does between its projections and its output matrix, for one head of one segment, token after token.
// SPLIT neighbouring invocations share a row (value channel) of the state and keep it in registers; the first N / 4 of
// the workgroup take four channels each of all that is not the state. Needs `const SPLIT` and `row_sum`.
#import params
#import weight/f32 as v_first binding 4
#import weight/f32 as gate binding 5

const N: u32 = 64u;     // op: head_size
const WG: u32 = N * SPLIT;
const QUADS: u32 = N / 4u;
const OWN: u32 = QUADS / SPLIT;

@group(0) @binding(1) var<storage, read> r: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> decay: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(8) var<storage, read> g: array<vec4<f32>>;
@group(0) @binding(9) var<storage, read> k_k: array<vec4<f32>>;
@group(0) @binding(10) var<storage, read> k_a: array<vec4<f32>>;
@group(0) @binding(11) var<storage, read> r_k: array<vec4<f32>>;
@group(0) @binding(12) var<storage, read> scale: array<vec4<f32>>;
@group(0) @binding(13) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(14) var<storage, read_write> state: array<vec4<f32>>;
@group(0) @binding(15) var<storage, read> segments: array<vec4<u32>>;
@group(0) @binding(16) var<storage, read_write> y: array<vec4<f32>>;

// The token that is being read, and what the state makes of it.
var<workgroup> token_r: array<vec4<f32>, QUADS>;
var<workgroup> token_decay: array<vec4<f32>, QUADS>;
var<workgroup> token_k: array<vec4<f32>, QUADS>;
var<workgroup> token_v: array<vec4<f32>, QUADS>;
var<workgroup> token_a: array<vec4<f32>, QUADS>;
var<workgroup> token_removal: array<vec4<f32>, QUADS>;
var<workgroup> token_bonus: array<vec4<f32>, QUADS>;
var<workgroup> token_y: array<f32, N>;

// Four channels of a token as they come.
struct Channels {
    r: vec4<f32>,
    k: vec4<f32>,
    v: vec4<f32>,
    v_first: vec4<f32>,
    gate: vec4<f32>,
    decay: vec4<f32>,
    a: vec4<f32>,
    g: vec4<f32>,
}

fn channels_at(i: u32) -> Channels {
    let c = 4u * i;
    let first = vec4(v_first_at(c), v_first_at(c + 1u), v_first_at(c + 2u), v_first_at(c + 3u));
    let to_first = vec4(gate_at(c), gate_at(c + 1u), gate_at(c + 2u), gate_at(c + 3u));
    return Channels(r[i], k[i], v[i], first, to_first, decay[i], a[i], g[i]);
}

// Four channels of what the state made of the token.
fn y_quad(quad: u32) -> vec4<f32> {
    let c = 4u * quad;
    return vec4(token_y[c], token_y[c + 1u], token_y[c + 2u], token_y[c + 3u]);
}

fn time_mix_core(unit: u32, lane: u32) {
    if unit >= params.segments * params.heads {
        return;
    }
    let segment = segments[unit / params.heads];
    let head = unit % params.heads;
    let row = lane / SPLIT;
    let part = lane % SPLIT;
    // The quads of a row go to its invocations in turn, so that neighbours read neighbours.
    let home = ((segment.z * params.heads + head) * N + row) * QUADS + part;
    var s: array<vec4<f32>, OWN>;
    for (var j = 0u; j < OWN; j++) {
        s[j] = state[home + j * SPLIT];
    }

    let has_channels = lane < QUADS;
    let c = head * QUADS + min(lane, QUADS - 1u);
    let width = params.m / 4u;
    var next: Channels;
    if has_channels {
        next = channels_at(segment.x * width + c);
    }
    for (var t = 0u; t < segment.y; t++) {
        let now = next;
        let value = now.v + (now.v_first - now.v) * now.gate;
        if has_channels {
            let key = now.k * (1.0 + (now.a - 1.0) * k_a[c]);
            token_r[lane] = now.r;
            token_decay[lane] = now.decay;
            token_k[lane] = key;
            token_v[lane] = value;
            token_a[lane] = now.a;
            token_removal[lane] = now.k * k_k[c];
            token_bonus[lane] = now.r * key * r_k[c];
            // The next token is on its way while this one is dealt with.
            if t + 1u < segment.y {
                next = channels_at((segment.x + t + 1u) * width + c);
            }
        }
        workgroupBarrier();

        var squares = 0.0;
        var strength = 0.0;
        for (var i = 0u; i < QUADS; i++) {
            squares += dot(token_removal[i], token_removal[i]);
            strength += dot(token_bonus[i], vec4(1.0));
        }
        let norm = max(sqrt(squares), 1e-12);
        var removed = 0.0;
        for (var j = 0u; j < OWN; j++) {
            removed -= dot(s[j], token_removal[part + j * SPLIT] / norm);
        }
        removed = row_sum(lane, 0u, removed);
        let written = token_v[row / 4u][row % 4u];
        var out = 0.0;
        for (var j = 0u; j < OWN; j++) {
            let i = part + j * SPLIT;
            let b = token_removal[i] / norm * token_a[i];
            s[j] = s[j] * token_decay[i] + removed * b + written * token_k[i];
            out += dot(s[j], token_r[i]);
        }
        out = row_sum(lane, 1u, out);
        if part == 0u {
            token_y[row] = out;
        }
        workgroupBarrier();

        // Those who share a row of the state see all channels between them.
        var sum = 0.0;
        for (var j = 0u; j < OWN; j++) {
            sum += dot(y_quad(part + j * SPLIT), vec4(1.0));
        }
        let mean = row_sum(lane, 0u, sum) / f32(N);
        var deviations = 0.0;
        for (var j = 0u; j < OWN; j++) {
            let centred = y_quad(part + j * SPLIT) - mean;
            deviations += dot(centred, centred);
        }
        let variance = row_sum(lane, 1u, deviations) / f32(N);
        if has_channels {
            let normed = (y_quad(lane) - mean) * inverseSqrt(variance + params.eps) * scale[c] + bias[c];
            y[(segment.x + t) * width + c] = (normed + strength * value) * now.g;
        }
    }
    for (var j = 0u; j < OWN; j++) {
        state[home + j * SPLIT] = s[j];
    }
}
