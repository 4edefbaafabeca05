// The heads of a time mix: the adapters' values, then all of its core, for one head of one segment, token after token.
// SPLIT neighbours share a channel: a row of each adapter and a row of the state, which stay in registers. Sums over a head
// are sums over those neighbours, as between them they see all channels; so three barriers a token are enough. Needs
// `const WG, SPLIT`, `row_sum`, and of the adapters: `Rows` and `rows_of`, what can be read before there is a token;
// `hold_hidden`, which brings the token's hidden values to workgroup memory; `shares`, an invocation's share of the sums.
#import params
#import others
#import activation
#import weight/f32 as v_first binding 5
#import weight/f32 as v0 binding 12

const N: u32 = 64u;             // op: head_size
const w2_rank: u32 = 32u;       // op: rank_decay
const a2_rank: u32 = 32u;       // op: rank_iclr
const v2_rank: u32 = 32u;       // op: rank_value
const g2_rank: u32 = 32u;       // op: rank_gate
const QUADS: u32 = N / 4u;
const OWN: u32 = QUADS / SPLIT;

@group(0) @binding(2) var<storage, read> r: array<f32>;
@group(0) @binding(3) var<storage, read> k: array<f32>;
@group(0) @binding(4) var<storage, read> v: array<f32>;
@group(0) @binding(10) var<storage, read> w0: array<f32>;
@group(0) @binding(11) var<storage, read> a0: array<f32>;
@group(0) @binding(13) var<storage, read> k_k: array<f32>;
@group(0) @binding(14) var<storage, read> k_a: array<f32>;
@group(0) @binding(15) var<storage, read> r_k: array<f32>;
@group(0) @binding(16) var<storage, read> scale: array<f32>;
@group(0) @binding(17) var<storage, read> bias: array<f32>;
@group(0) @binding(18) var<storage, read_write> state: array<vec4<f32>>;
@group(0) @binding(19) var<storage, read> segments: array<vec4<u32>>;
@group(0) @binding(20) var<storage, read_write> y: array<f32>;

// The token's channels, one kind after another, and what the state makes of them.
// Scalars: whoever stores a component of a vector may store all of it, and neighbours have the others.
var<workgroup> channels: array<f32, 6u * N>;
var<workgroup> heads: array<f32, N>;
const READ: u32 = 0u;
const DECAYED: u32 = N;
const KEY: u32 = 2u * N;
const RATE: u32 = 3u * N;
const REMOVAL: u32 = 4u * N;
const BONUS: u32 = 5u * N;

fn channel_quad(kind: u32, quad: u32) -> vec4<f32> {
    let i = kind + 4u * quad;
    return vec4(channels[i], channels[i + 1u], channels[i + 2u], channels[i + 3u]);
}

fn head_quad(quad: u32) -> vec4<f32> {
    let i = 4u * quad;
    return vec4(heads[i], heads[i + 1u], heads[i + 2u], heads[i + 3u]);
}

fn time_mix_heads(unit: u32, lane: u32) {
    if unit >= params.segments * params.heads {
        others_done(lane);
        return;
    }
    let segment = segments[unit / params.heads];
    let head = unit % params.heads;
    // Those beyond the last row compute it again and store nothing.
    let row = min(lane / SPLIT, N - 1u);
    let part = lane % SPLIT;
    let stores = lane < N * SPLIT;
    let c = head * N + row;

    // What depends on no activation comes first.
    let rows = rows_of(c, part);
    let home = ((segment.z * params.heads + head) * N + row) * QUADS + part;
    var s: array<vec4<f32>, OWN>;
    for (var j = 0u; j < OWN; j++) {
        s[j] = state[home + j * SPLIT];
    }
    let biases = vec3(w0[c], a0[c], v0_at(c));
    let of_key = vec3(k_k[c], k_a[c], r_k[c]);
    let of_norm = vec2(scale[c], bias[c]);

    let ready = others_done(lane);

    // Where there is one row in all, compilers see no loop.
    let tokens = min(segment.y, params.rows);
    for (var t = 0u; t < tokens; t++) {
        let token = segment.x + t + ready;
        let at = token * params.m + c;
        let read = r[at];
        let came = k[at];
        let own_value = v[at];
        let first_value = v_first_at(at);
        hold_hidden(token, lane);
        workgroupBarrier();

        let share = shares(rows, part);
        let sums = vec4(
            row_sum(lane, 0u, share.x),
            row_sum(lane, 1u, share.y),
            row_sum(lane, 0u, share.z),
            row_sum(lane, 1u, share.w),
        );
        let decay = activate(DECAY, biases.x + sums.x);
        let rate = sigmoid(biases.y + sums.y);
        let to_first = select(0.0, sigmoid(biases.z + sums.z), v2_rank > 0u);
        let value = own_value + (first_value - own_value) * to_first;
        let key = came * (1.0 + (rate - 1.0) * of_key.y);
        if part == 0u && stores {
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
        for (var j = 0u; j < OWN; j++) {
            let removal = channel_quad(REMOVAL, part + j * SPLIT);
            removed += dot(s[j], removal);
            squares += dot(removal, removal);
            strength += dot(channel_quad(BONUS, part + j * SPLIT), vec4(1.0));
        }
        let norm = max(sqrt(row_sum(lane, 0u, squares)), 1e-12);
        removed = -row_sum(lane, 1u, removed) / norm;
        strength = row_sum(lane, 0u, strength);
        var out = 0.0;
        for (var j = 0u; j < OWN; j++) {
            let i = part + j * SPLIT;
            let b = channel_quad(REMOVAL, i) / norm * channel_quad(RATE, i);
            s[j] = s[j] * channel_quad(DECAYED, i) + removed * b + value * channel_quad(KEY, i);
            out += dot(s[j], channel_quad(READ, i));
        }
        out = row_sum(lane, 1u, out);
        if part == 0u && stores {
            heads[row] = out;
        }
        workgroupBarrier();

        var sum = 0.0;
        for (var j = 0u; j < OWN; j++) {
            sum += dot(head_quad(part + j * SPLIT), vec4(1.0));
        }
        let mean = row_sum(lane, 0u, sum) / f32(N);
        var deviations = 0.0;
        for (var j = 0u; j < OWN; j++) {
            let centred = head_quad(part + j * SPLIT) - mean;
            deviations += dot(centred, centred);
        }
        let spread = inverseSqrt(row_sum(lane, 1u, deviations) / f32(N) + params.eps);
        if part == 0u && stores {
            y[at] = ((out - mean) * spread * of_norm.x + of_norm.y + strength * value) * sums.w;
        }
    }
    for (var j = 0u; j < OWN; j++) {
        if stores {
            state[home + j * SPLIT] = s[j];
        }
    }
}
