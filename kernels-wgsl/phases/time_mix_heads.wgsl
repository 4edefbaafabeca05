// The heads of a time mix: the adapters' second halves, then all of its core, for one head of one segment, token after token.
// THREADS_PER_ROW adjacent threads share a channel: a row of each adapter and a row of the state, which stay in registers.
// Sums over a head are sums over those threads, as among them they have all channels: three barriers a token are enough.
// Of the adapters `load_adapter_rows` loads what can be loaded before there is a token, `stage_hidden` stages the
// token's hidden
// values, and `adapter_shares` is a thread's share of the sums.
// requires: const THREADS_PER_ROW, fn adapter_shares, load_adapter_rows, row_reduce, stage_hidden
#import lib/op
#import lib/vector as v_first binding 5
#import lib/vector as v0 binding 12
#import lib/state/* as state binding 18

const N: u32 = 64u;             // op: head_size
const w2_rank: u32 = 32u;       // op: rank_decay
const a2_rank: u32 = 32u;       // op: rank_iclr
const v2_rank: u32 = 32u;       // op: rank_value
const g2_rank: u32 = 32u;       // op: rank_gate
const VEC4S: u32 = N / 4u;
const VEC4S_PER_THREAD: u32 = VEC4S / THREADS_PER_ROW;

@group(0) @binding(2) var<storage, read> r: array<f32>;                  // [tokens, heads, N]
@group(0) @binding(3) var<storage, read> k: array<f32>;                  // [tokens, heads, N]
@group(0) @binding(4) var<storage, read> v: array<f32>;                  // [tokens, heads, N]
@group(0) @binding(10) var<storage, read> w0: array<f32>;                // [heads, N]
@group(0) @binding(11) var<storage, read> a0: array<f32>;                // [heads, N]
@group(0) @binding(13) var<storage, read> k_k: array<f32>;               // [heads, N]
@group(0) @binding(14) var<storage, read> k_a: array<f32>;               // [heads, N]
@group(0) @binding(15) var<storage, read> r_k: array<f32>;               // [heads, N]
@group(0) @binding(16) var<storage, read> scale: array<f32>;             // [heads, N]
@group(0) @binding(17) var<storage, read> bias: array<f32>;              // [heads, N]
@group(0) @binding(19) var<storage, read> segments: array<vec4<u32>>;    // [segments]: first token, length, slot
@group(0) @binding(20) var<storage, read_write> y: array<f32>;           // [tokens, heads, N]

// The token's channels, one kind after another, and what the state makes of them.
// Scalars: a device may store all of a vector where one component is meant, and other threads store the others.
var<workgroup> channels: array<f32, 6u * N>;
var<workgroup> heads: array<f32, N>;
const READ: u32 = 0u;
const DECAYED: u32 = N;
const KEY: u32 = 2u * N;
const RATE: u32 = 3u * N;
const REMOVAL: u32 = 4u * N;
const BONUS: u32 = 5u * N;

fn channel_vec4(kind: u32, v4: u32) -> vec4<f32> {
    let i = kind + 4u * v4;
    return vec4(channels[i], channels[i + 1u], channels[i + 2u], channels[i + 3u]);
}

fn head_vec4(v4: u32) -> vec4<f32> {
    let i = 4u * v4;
    return vec4(heads[i], heads[i + 1u], heads[i + 2u], heads[i + 3u]);
}

fn time_mix_heads(index: u32, tid: u32) {
    if index >= params.segments * params.heads {
        grid_dependency_wait(tid);
        return;
    }
    let segment = segments[index / params.heads];
    let head = index % params.heads;
    // Rows are clamped: threads past the last row compute it again and store nothing.
    let row = min(tid / THREADS_PER_ROW, N - 1u);
    let row_thread = tid % THREADS_PER_ROW;
    let stores = tid < N * THREADS_PER_ROW;
    let c = head * N + row;

    // Loads that depend on no activation.
    let rows = load_adapter_rows(c, row_thread);
    let home = ((segment.z * params.heads + head) * N + row) * VEC4S + row_thread;
    var s: array<vec4<f32>, VEC4S_PER_THREAD>;
    for (var j = 0u; j < VEC4S_PER_THREAD; j++) {
        s[j] = state_load(home + j * THREADS_PER_ROW);
    }
    let biases = vec3(w0[c], a0[c], v0_value(c));
    let of_key = vec3(k_k[c], k_a[c], r_k[c]);
    let of_norm = vec2(scale[c], bias[c]);

    let ready = grid_dependency_wait(tid);

    // With one row in all, compilers see no loop.
    let tokens = min(segment.y, params.rows);
    for (var t = 0u; t < tokens; t++) {
        let token = segment.x + t + ready;
        let at = token * params.m + c;
        let read = r[at];
        let came = k[at];
        let own_value = v[at];
        let first_value = v_first_value(at);
        stage_hidden(token, tid);
        workgroupBarrier();

        let share = adapter_shares(rows, row_thread);
        let sums = vec4(
            row_reduce(tid, 0u, share.x),
            row_reduce(tid, 1u, share.y),
            row_reduce(tid, 0u, share.z),
            row_reduce(tid, 1u, share.w),
        );
        let decay = activate(DECAY, biases.x + sums.x);
        let rate = sigmoid(biases.y + sums.y);
        let to_first = select(0.0, sigmoid(biases.z + sums.z), v2_rank > 0u);
        let value = own_value + (first_value - own_value) * to_first;
        let key = came * (1.0 + (rate - 1.0) * of_key.y);
        if row_thread == 0u && stores {
            channels[READ + row] = read;
            channels[DECAYED + row] = decay;
            channels[KEY + row] = key;
            channels[RATE + row] = rate;
            channels[REMOVAL + row] = came * of_key.x;
            channels[BONUS + row] = read * key * of_key.z;
        }
        workgroupBarrier();

        var removed = 0.0;
        var squares = 0.0;
        var strength = 0.0;
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {
            let removal = channel_vec4(REMOVAL, row_thread + j * THREADS_PER_ROW);
            removed += dot(s[j], removal);
            squares += dot(removal, removal);
            strength += dot(channel_vec4(BONUS, row_thread + j * THREADS_PER_ROW), vec4(1.0));
        }
        let norm = max(sqrt(row_reduce(tid, 0u, squares)), 1e-12);
        removed = -row_reduce(tid, 1u, removed) / norm;
        strength = row_reduce(tid, 0u, strength);
        var out = 0.0;
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {
            let i = row_thread + j * THREADS_PER_ROW;
            let b = channel_vec4(REMOVAL, i) / norm * channel_vec4(RATE, i);
            s[j] = s[j] * channel_vec4(DECAYED, i) + removed * b + value * channel_vec4(KEY, i);
            out += dot(s[j], channel_vec4(READ, i));
        }
        out = row_reduce(tid, 1u, out);
        if row_thread == 0u && stores {
            heads[row] = out;
        }
        workgroupBarrier();

        var sum = 0.0;
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {
            sum += dot(head_vec4(row_thread + j * THREADS_PER_ROW), vec4(1.0));
        }
        let mean = row_reduce(tid, 0u, sum) / f32(N);
        var deviations = 0.0;
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {
            let centred = head_vec4(row_thread + j * THREADS_PER_ROW) - mean;
            deviations += dot(centred, centred);
        }
        let spread = inverseSqrt(row_reduce(tid, 1u, deviations) / f32(N) + params.eps);
        if row_thread == 0u && stores {
            y[at] = ((out - mean) * spread * of_norm.x + of_norm.y + strength * value) * sums.w;
        }
    }
    for (var j = 0u; j < VEC4S_PER_THREAD; j++) {
        if stores {
            state_store(home + j * THREADS_PER_ROW, s[j]);
        }
    }
}
