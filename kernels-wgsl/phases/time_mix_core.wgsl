// All that a time mix does between its projections and its output matrix, for one head of one segment, token after token.
// THREADS_PER_ROW adjacent threads share a row (value channel) of the state and keep it in registers; the first N / 4 of the
// workgroup take four channels each of all that is not the state.
// requires: const THREADS_PER_ROW, fn row_reduce
#import lib/op
#import lib/vector as v_first binding 4
#import lib/vector as gate binding 5
#import lib/state/* as state binding 14

const N: u32 = 64u;     // op: head_size
const WG: u32 = N * THREADS_PER_ROW;
const VEC4S: u32 = N / 4u;
const VEC4S_PER_THREAD: u32 = VEC4S / THREADS_PER_ROW;

@group(0) @binding(1) var<storage, read> r: array<vec4<f32>>;            // [tokens, heads, N]
@group(0) @binding(2) var<storage, read> k: array<vec4<f32>>;            // [tokens, heads, N]
@group(0) @binding(3) var<storage, read> v: array<vec4<f32>>;            // [tokens, heads, N]
@group(0) @binding(6) var<storage, read> decay: array<vec4<f32>>;        // [tokens, heads, N]
@group(0) @binding(7) var<storage, read> a: array<vec4<f32>>;            // [tokens, heads, N]
@group(0) @binding(8) var<storage, read> g: array<vec4<f32>>;            // [tokens, heads, N]
@group(0) @binding(9) var<storage, read> k_k: array<vec4<f32>>;          // [heads, N]
@group(0) @binding(10) var<storage, read> k_a: array<vec4<f32>>;         // [heads, N]
@group(0) @binding(11) var<storage, read> r_k: array<vec4<f32>>;         // [heads, N]
@group(0) @binding(12) var<storage, read> scale: array<vec4<f32>>;       // [heads, N]
@group(0) @binding(13) var<storage, read> bias: array<vec4<f32>>;        // [heads, N]
@group(0) @binding(15) var<storage, read> segments: array<vec4<u32>>;    // [segments]: first token, length, slot
@group(0) @binding(16) var<storage, read_write> y: array<vec4<f32>>;     // [tokens, heads, N]

// The token that is being read, and what the state makes of it.
var<workgroup> token_r: array<vec4<f32>, VEC4S>;
var<workgroup> token_decay: array<vec4<f32>, VEC4S>;
var<workgroup> token_k: array<vec4<f32>, VEC4S>;
var<workgroup> token_v: array<vec4<f32>, VEC4S>;
var<workgroup> token_a: array<vec4<f32>, VEC4S>;
var<workgroup> token_removal: array<vec4<f32>, VEC4S>;
var<workgroup> token_bonus: array<vec4<f32>, VEC4S>;
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
    let first = vec4(v_first_value(c), v_first_value(c + 1u), v_first_value(c + 2u), v_first_value(c + 3u));
    let to_first = vec4(gate_value(c), gate_value(c + 1u), gate_value(c + 2u), gate_value(c + 3u));
    return Channels(r[i], k[i], v[i], first, to_first, decay[i], a[i], g[i]);
}

// Four channels of what the state made of the token.
fn y_vec4(v4: u32) -> vec4<f32> {
    let c = 4u * v4;
    return vec4(token_y[c], token_y[c + 1u], token_y[c + 2u], token_y[c + 3u]);
}

fn time_mix_core(index: u32, tid: u32) {
    if index >= params.segments * params.heads {
        return;
    }
    let segment = segments[index / params.heads];
    let head = index % params.heads;
    let row = tid / THREADS_PER_ROW;
    let row_thread = tid % THREADS_PER_ROW;
    // The threads of a row take its vec4s in turn, so that adjacent threads load adjacent vec4s.
    let home = ((segment.z * params.heads + head) * N + row) * VEC4S + row_thread;
    var s: array<vec4<f32>, VEC4S_PER_THREAD>;
    for (var j = 0u; j < VEC4S_PER_THREAD; j++) {
        s[j] = state_load(home + j * THREADS_PER_ROW);
    }

    let has_channels = tid < VEC4S;
    let c = head * VEC4S + min(tid, VEC4S - 1u);
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
            token_r[tid] = now.r;
            token_decay[tid] = now.decay;
            token_k[tid] = key;
            token_v[tid] = value;
            token_a[tid] = now.a;
            token_removal[tid] = now.k * k_k[c];
            token_bonus[tid] = now.r * key * r_k[c];
            // In flight while this token is computed.
            if t + 1u < segment.y {
                next = channels_at((segment.x + t + 1u) * width + c);
            }
        }
        workgroupBarrier();

        var squares = 0.0;
        var strength = 0.0;
        for (var i = 0u; i < VEC4S; i++) {
            squares += dot(token_removal[i], token_removal[i]);
            strength += dot(token_bonus[i], vec4(1.0));
        }
        let norm = max(sqrt(squares), 1e-12);
        var removed = 0.0;
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {
            removed -= dot(s[j], token_removal[row_thread + j * THREADS_PER_ROW] / norm);
        }
        removed = row_reduce(tid, 0u, removed);
        let written = token_v[row / 4u][row % 4u];
        var out = 0.0;
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {
            let i = row_thread + j * THREADS_PER_ROW;
            let b = token_removal[i] / norm * token_a[i];
            s[j] = s[j] * token_decay[i] + removed * b + written * token_k[i];
            out += dot(s[j], token_r[i]);
        }
        out = row_reduce(tid, 1u, out);
        if row_thread == 0u {
            token_y[row] = out;
        }
        workgroupBarrier();

        // The threads of a row of the state have all channels among them.
        var sum = 0.0;
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {
            sum += dot(y_vec4(row_thread + j * THREADS_PER_ROW), vec4(1.0));
        }
        let mean = row_reduce(tid, 0u, sum) / f32(N);
        var deviations = 0.0;
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {
            let centred = y_vec4(row_thread + j * THREADS_PER_ROW) - mean;
            deviations += dot(centred, centred);
        }
        let variance = row_reduce(tid, 1u, deviations) / f32(N);
        if has_channels {
            let normed = (y_vec4(tid) - mean) * inverseSqrt(variance + params.eps) * scale[c] + bias[c];
            y[(segment.x + t) * width + c] = (normed + strength * value) * now.g;
        }
    }
    for (var j = 0u; j < VEC4S_PER_THREAD; j++) {
        state_store(home + j * THREADS_PER_ROW, s[j]);
    }
}
