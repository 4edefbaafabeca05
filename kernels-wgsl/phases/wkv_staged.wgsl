// The recurrence of RWKV-7: a delta rule with a decay for each channel (Peng et al., "RWKV-7 'Goose' with Expressive
// Dynamic State Evolution", 2025), token after token. A workgroup has ROWS_PER_WORKGROUP value channels of one head of
// one segment, its tokens in blocks. A block's inputs lie in one half of `staged` while the next block's are in flight:
// one barrier a block. THREADS_PER_ROW adjacent threads share a row (value channel) of the state, each keeps its part
// of ROWS_PER_THREAD rows in registers. Tokens past the end of the segment leave the state as it is: decay 1, all else
// 0.
//
// Where there is k_k, k is as it was projected: the threads that stage a token make of it the removal key and the
// updated key,
// and of v, v_first and gate the value.
// requires: const ROWS_PER_THREAD, ROWS_PER_WORKGROUP, THREADS_PER_ROW, TOKENS
#import lib/op
#import lib/vector4 as kk binding 5
#import lib/state/* as state binding 7
#import lib/vector as v_first binding 10
#import lib/vector as gate binding 11
#import lib/vector4 as k_k binding 12
#import lib/vector4 as k_a binding 13

const N: u32 = 64u;             // op: head_size
const MIN_SUBGROUP: u32 = 4u;   // device: min_subgroup
const WG: u32 = ROWS_PER_WORKGROUP / ROWS_PER_THREAD * THREADS_PER_ROW;
const WORKGROUPS_PER_HEAD: u32 = N / ROWS_PER_WORKGROUP;
const VEC4S: u32 = N / 4u;
const VEC4S_PER_THREAD: u32 = VEC4S / THREADS_PER_ROW;

// A token is staged by adjacent lanes of one subgroup: its norm is a sum over them.
const LANES: u32 = min(VEC4S, MIN_SUBGROUP);
const VEC4S_PER_LANE: u32 = VEC4S / LANES;
// Of a block, a thread stages channels of so many tokens, and so many values.
const STAGED_TOKENS: u32 = (TOKENS * LANES + WG - 1u) / WG;
const STAGED_VALUES: u32 = (TOKENS * ROWS_PER_WORKGROUP + WG - 1u) / WG;

const_assert N % (4u * THREADS_PER_ROW) == 0u;              // a thread has at least four columns of the state
const_assert N % ROWS_PER_WORKGROUP == 0u;                  // workgroups share the rows of a head evenly
const_assert THREADS_PER_ROW <= MIN_SUBGROUP;               // the threads of a row are in one subgroup
const_assert VEC4S % LANES == 0u && WG % LANES == 0u;       // the lanes of a token are in one subgroup
const_assert WG <= 1024u;                                   // a workgroup has a thread for each part of its rows
const_assert TOKENS % THREADS_PER_ROW == 0u;                // each thread of a row has a token of y to store

@group(0) @binding(1) var<storage, read> r: array<vec4<f32>>;           // [tokens, heads, N]
@group(0) @binding(2) var<storage, read> decay: array<vec4<f32>>;       // [tokens, heads, N]
@group(0) @binding(3) var<storage, read> k: array<vec4<f32>>;           // [tokens, heads, N]
@group(0) @binding(4) var<storage, read> v: array<f32>;                 // [tokens, heads, N]
@group(0) @binding(6) var<storage, read> a: array<vec4<f32>>;           // [tokens, heads, N]
@group(0) @binding(8) var<storage, read> segments: array<vec4<u32>>;    // [segments]: first token, length, slot
@group(0) @binding(9) var<storage, read_write> y: array<f32>;           // [tokens, heads, N]

// Of each token of two blocks: what is removed (-kk), decay, key, what takes its place (kk * a), r.
const REMOVED: u32 = 0u;
const DECAYED: u32 = VEC4S;
const KEY: u32 = 2u * VEC4S;
const PLACED: u32 = 3u * VEC4S;
const READ: u32 = 4u * VEC4S;
const STAGED: u32 = 5u * VEC4S;
var<workgroup> staged: array<vec4<f32>, 2u * TOKENS * STAGED>;
var<workgroup> staged_values: array<f32, 2u * TOKENS * ROWS_PER_WORKGROUP>;

// What a thread stages of a block, as it is loaded.
struct Block {
    r: array<vec4<f32>, STAGED_TOKENS * VEC4S_PER_LANE>,
    decay: array<vec4<f32>, STAGED_TOKENS * VEC4S_PER_LANE>,
    k: array<vec4<f32>, STAGED_TOKENS * VEC4S_PER_LANE>,
    a: array<vec4<f32>, STAGED_TOKENS * VEC4S_PER_LANE>,
    kk: array<vec4<f32>, STAGED_TOKENS * VEC4S_PER_LANE>,
    v: array<f32, STAGED_VALUES>,
    v_first: array<f32, STAGED_VALUES>,
    gate: array<f32, STAGED_VALUES>,
}

// What a thread's channels have of their own.
struct OfHead {
    k_k: array<vec4<f32>, VEC4S_PER_LANE>,
    k_a: array<vec4<f32>, VEC4S_PER_LANE>,
}

// Issues the loads of the block whose first token is `first`; the segment ends before `end`. `c` is the thread's first vec4
// among those of a token, `row` the first row of the workgroup.
fn load_block(first: u32, end: u32, c: u32, row: u32, tid: u32) -> Block {
    var block: Block;
    for (var i = 0u; i < STAGED_TOKENS; i++) {      // unroll
        let token = first + (i * WG + tid) / LANES;
        let is_token = token < end && i * WG + tid < TOKENS * LANES;
        for (var j = 0u; j < VEC4S_PER_LANE; j++) {     // unroll
            const at = i * VEC4S_PER_LANE + j;
            let source = token * (params.m / 4u) + c + j * LANES;
            block.decay[at] = vec4(1.0);
            if is_token {
                block.r[at] = r[source];
                block.decay[at] = decay[source];
                block.k[at] = k[source];
                block.a[at] = a[source];
                block.kk[at] = kk_vec4(source);
            }
        }
    }
    for (var i = 0u; i < STAGED_VALUES; i++) {      // unroll
        let token = first + (i * WG + tid) / ROWS_PER_WORKGROUP;
        if token < end && i * WG + tid < TOKENS * ROWS_PER_WORKGROUP {
            let source = token * params.m + row + (i * WG + tid) % ROWS_PER_WORKGROUP;
            block.v[i] = v[source];
            block.v_first[i] = v_first_value(source);
            block.gate[i] = gate_value(source);
        }
    }
    return block;
}

// Stages a loaded block as tokens `first_staged` and following.
fn stage_block(first_staged: u32, block: Block, of_head: OfHead, tid: u32) {
    for (var i = 0u; i < STAGED_TOKENS; i++) {      // unroll
        // 1 / norm of the removal key: a sum over the lanes of the token.
        var by_norm = 1.0;
        if k_k_is_present {
            var squares = 0.0;
            for (var j = 0u; j < VEC4S_PER_LANE; j++) {     // unroll
                let removal = block.k[i * VEC4S_PER_LANE + j] * of_head.k_k[j];
                squares += dot(removal, removal);
            }
            for (var mask = 1u; mask < LANES; mask *= 2u) {
                squares += subgroupShuffleXor(squares, mask);
            }
            by_norm = 1.0 / max(sqrt(squares), 1e-12);
        }
        for (var j = 0u; j < VEC4S_PER_LANE; j++) {     // unroll
            const at = i * VEC4S_PER_LANE + j;
            let rate = block.a[at];
            var key = block.k[at];
            var removal = block.kk[at];
            if k_k_is_present {
                removal = key * of_head.k_k[j] * by_norm;
                key *= 1.0 + (rate - 1.0) * of_head.k_a[j];
            }
            if i * WG + tid < TOKENS * LANES {
                let to = (first_staged + (i * WG + tid) / LANES) * STAGED + tid % LANES + j * LANES;
                staged[to + REMOVED] = -removal;
                staged[to + DECAYED] = block.decay[at];
                staged[to + KEY] = key;
                staged[to + PLACED] = removal * rate;
                staged[to + READ] = block.r[at];
            }
        }
    }
    for (var i = 0u; i < STAGED_VALUES; i++) {      // unroll
        if i * WG + tid < TOKENS * ROWS_PER_WORKGROUP {
            let value = block.v[i] + (block.v_first[i] - block.v[i]) * block.gate[i];
            staged_values[first_staged * ROWS_PER_WORKGROUP + i * WG + tid] = value;
        }
    }
}

// Four columns of a staged token.
struct Columns {
    removed: vec4<f32>,
    decay: vec4<f32>,
    key: vec4<f32>,
    placed: vec4<f32>,
    r: vec4<f32>,
}

fn load_columns(at: u32) -> Columns {
    return Columns(
        staged[at + REMOVED],
        staged[at + DECAYED],
        staged[at + KEY],
        staged[at + PLACED],
        staged[at + READ],
    );
}

fn horizontal_sum(x: vec4<f32>) -> f32 {
    return (x.x + x.y) + (x.z + x.w);
}

fn wkv_staged(index: u32, tid: u32) {
    if index >= params.segments * params.heads * WORKGROUPS_PER_HEAD {
        return;
    }
    let segment = segments[index / (params.heads * WORKGROUPS_PER_HEAD)];
    let end = segment.x + segment.y;
    let head = index / WORKGROUPS_PER_HEAD % params.heads;
    // Rows of the model: the first of the workgroup, the first of the thread.
    let first_row = head * N + index % WORKGROUPS_PER_HEAD * ROWS_PER_WORKGROUP;
    let own_row = tid / THREADS_PER_ROW * ROWS_PER_THREAD;
    let row_thread = tid % THREADS_PER_ROW;
    // The threads of a row take its vec4s in turn, so that adjacent threads load adjacent vec4s.
    let home = (segment.z * params.m + first_row + own_row) * VEC4S + row_thread;
    var s: array<vec4<f32>, ROWS_PER_THREAD * VEC4S_PER_THREAD>;
    for (var i = 0u; i < ROWS_PER_THREAD; i++) {        // unroll
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {       // unroll
            s[i * VEC4S_PER_THREAD + j] = state_load(home + i * VEC4S + j * THREADS_PER_ROW);
        }
    }
    let c = head * VEC4S + tid % LANES;
    var of_head: OfHead;
    for (var j = 0u; j < VEC4S_PER_LANE; j++) {     // unroll
        of_head.k_k[j] = k_k_vec4(c + j * LANES);
        of_head.k_a[j] = k_a_vec4(c + j * LANES);
    }

    var next = load_block(segment.x, end, c, first_row, tid);
    for (var done = 0u; done < segment.y; done += TOKENS) {
        let first_staged = done / TOKENS % 2u * TOKENS;
        stage_block(first_staged, next, of_head, tid);
        workgroupBarrier();
        next = load_block(segment.x + done + TOKENS, end, c, first_row, tid);

        for (var t = 0u; t < TOKENS; t += THREADS_PER_ROW) {
            // y of as many tokens as threads share a row, each thread's part of it.
            var sums: array<f32, ROWS_PER_THREAD * THREADS_PER_ROW>;
            for (var u = 0u; u < THREADS_PER_ROW; u++) {        // unroll
                let token = first_staged + t + u;
                var columns: array<Columns, VEC4S_PER_THREAD>;
                for (var j = 0u; j < VEC4S_PER_THREAD; j++) {       // unroll
                    columns[j] = load_columns(token * STAGED + row_thread + j * THREADS_PER_ROW);
                }
                var removed: array<f32, ROWS_PER_THREAD>;
                for (var i = 0u; i < ROWS_PER_THREAD; i++) {        // unroll
                    let value = staged_values[token * ROWS_PER_WORKGROUP + own_row + i];
                    var products = vec4(0.0);
                    for (var j = 0u; j < VEC4S_PER_THREAD; j++) {       // unroll
                        const at = i * VEC4S_PER_THREAD + j;
                        products = fma(s[at], columns[j].removed, products);
                        s[at] = fma(s[at], columns[j].decay, value * columns[j].key);
                    }
                    removed[i] = horizontal_sum(products);
                }
                for (var mask = THREADS_PER_ROW / 2u; mask > 0u; mask /= 2u) {
                    for (var i = 0u; i < ROWS_PER_THREAD; i++) {        // unroll
                        removed[i] += subgroupShuffleXor(removed[i], mask);
                    }
                }
                for (var i = 0u; i < ROWS_PER_THREAD; i++) {        // unroll
                    var products = vec4(0.0);
                    for (var j = 0u; j < VEC4S_PER_THREAD; j++) {       // unroll
                        const at = i * VEC4S_PER_THREAD + j;
                        s[at] = fma(vec4(removed[i]), columns[j].placed, s[at]);
                        products = fma(s[at], columns[j].r, products);
                    }
                    sums[i * THREADS_PER_ROW + u] = horizontal_sum(products);
                }
            }

            // Reduce-scatter over the threads of a row: partners that are THREADS_PER_ROW / 2, / 4, ... apart exchange half of
            // the tokens that they still have. Thread i ends with token i.
            for (var e = 0u; e < THREADS_PER_ROW - 1u; e++) {       // unroll
                const left = THREADS_PER_ROW - 1u - e;
                const apart = 1u << firstLeadingBit(left);
                let keeps_upper = (row_thread & apart) != 0u;
                for (var i = 0u; i < ROWS_PER_THREAD; i++) {        // unroll
                    const lower = i * THREADS_PER_ROW + left - apart;
                    let sent = select(sums[lower + apart], sums[lower], keeps_upper);
                    let kept = select(sums[lower], sums[lower + apart], keeps_upper);
                    sums[lower] = kept + subgroupShuffleXor(sent, apart);
                }
            }
            let token = segment.x + done + t + row_thread;
            if token < end {
                for (var i = 0u; i < ROWS_PER_THREAD; i++) {        // unroll
                    y[token * params.m + first_row + own_row + i] = sums[i * THREADS_PER_ROW];
                }
            }
        }
    }
    for (var i = 0u; i < ROWS_PER_THREAD; i++) {        // unroll
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {       // unroll
            state_store(home + i * VEC4S + j * THREADS_PER_ROW, s[i * VEC4S_PER_THREAD + j]);
        }
    }
}
