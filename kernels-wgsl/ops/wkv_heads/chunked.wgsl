// idea: chunkwise-parallel delta rule: products of a chunk's vectors stand in for the recurrence, so the state changes once a chunk.
// needs: subgroups
// grid: segments * heads * (N / ROWS_PER_WORKGROUP)
#import lib/op
#import lib/vector as v_first binding 4
#import lib/vector as gate binding 5
#import lib/state/* as state binding 10

// The chunkwise-parallel delta rule: the WY representation of a chunk's updates, here with a decay for each channel
// (diagonal
// plus low rank, DPLR). Yang et al., "Parallelizing Linear Transformers with the Delta Rule over Sequence Length",
// 2024; the
// recurrence is that of Peng et al. 2025 (phases/wkv_staged).
//
// Let P_t be the product of the decays of a chunk's tokens up to t, S the state before the chunk, v_t the value of
// token t. The
// vectors of a token with their decays are
//   ag_t = -kk_t P_(t-1)    rg_t = r_t P_t    kg_t = k_t / P_t    bg_t = kk_t a_t / P_t
// Within the chunk, forward substitution gives delta_t for each row of the state: what token t puts in along kk_t a_t
// (`solve`).
//   delta_t = S ag_t + sum over j < t of (kg_j . ag_t) v_j + (bg_j . ag_t) delta_j
// With them the outputs are independent, and the state goes from chunk to chunk:
//   y_t = S rg_t + sum over j <= t of (kg_j . rg_t) v_j + (bg_j . rg_t) delta_j
//   state after the chunk = (S + sum over j of v_j kg_j + delta_j bg_j) P_last
// A decay is at least exp(-exp(-0.5)) = 0.545, so 1 / P is at most 16,400 after 16 tokens. A column of a product is scaled by
// P_t / P_j <= 1 in all: to divide costs roundings, but cancels nothing. Tokens past the end of the segment leave the state as it
// is: decay 1, all else 0.

const N: u32 = 64u;                     // op: head_size
const SM: u32 = 16u;                    // device: multiprocessors
const MIN_SUBGROUP: u32 = 4u;           // device: min_subgroup
const ROWS_PER_WORKGROUP: u32 = 16u;    // tune: 16 32 64 8
const CHUNK: u32 = 16u;                 // tune: 16 8
// Rows of the state that a thread updates at once.
const ROWS_PER_THREAD: u32 = 2u;        // tune: 2 4 1
// Tiles of the products that a thread takes part in.
const ROUNDS: u32 = 1u;                 // tune: 1 2
// Adjacent lanes that work on different tiles. From 2 on, adjacent lanes load the same vectors.
const ADJACENT_TILES: u32 = 1u;         // tune: 1 2 4

const VEC4S: u32 = N / 4u;
const BLOCKS: u32 = CHUNK / 4u;         // blocks of four tokens
const ROW_BLOCKS: u32 = ROWS_PER_WORKGROUP / 4u;

// A tile is the products of four vectors with four others, or with four rows of the state. PARTS lanes share a tile: each sums a
// part of the columns. Tiles come in groups of 2 x 2: those of a chunk's vectors in the lower triangle, then those with the state.
const PARTS: u32 = 4u;
const TRIANGLE_GROUPS: u32 = BLOCKS / 2u * (BLOCKS / 2u + 1u) / 2u;
const CHUNK_GROUPS: u32 = 4u * TRIANGLE_GROUPS;
const STATE_GROUPS: u32 = BLOCKS * ROW_BLOCKS / 2u;
const WG: u32 = (CHUNK_GROUPS + STATE_GROUPS) * 4u * PARTS / ROUNDS;

// The last threads of a workgroup stage a vec4 of four tokens each: the first ones have rows to solve.
const STAGING_THREADS: u32 = BLOCKS * VEC4S;
const VALUE_THREADS: u32 = BLOCKS * ROWS_PER_WORKGROUP;

const_assert N % (8u * PARTS) == 0u;                        // the lanes of a tile sum two vec4s at a time
const_assert N % ROWS_PER_WORKGROUP == 0u;                  // workgroups share the rows of a head evenly
const_assert CHUNK == 8u || CHUNK == 16u;                   // a triangle is one group, or three
const_assert PARTS * ADJACENT_TILES <= MIN_SUBGROUP;        // the lanes of a tile are in one subgroup
const_assert WG <= 1024u;                                   // a workgroup has a thread for each part of a round's tiles
const_assert STAGING_THREADS <= WG && VALUE_THREADS <= WG;  // a thread stages at most one vec4 of four tokens

@group(0) @binding(1) var<storage, read> r: array<vec4<f32>>;            // [tokens, heads, N]
@group(0) @binding(2) var<storage, read> k: array<vec4<f32>>;            // [tokens, heads, N]
@group(0) @binding(3) var<storage, read> v: array<f32>;                  // [tokens, heads, N]
@group(0) @binding(6) var<storage, read> decay: array<vec4<f32>>;        // [tokens, heads, N]
@group(0) @binding(7) var<storage, read> a: array<vec4<f32>>;            // [tokens, heads, N]
@group(0) @binding(8) var<storage, read> k_k: array<vec4<f32>>;          // [heads, N]
@group(0) @binding(9) var<storage, read> k_a: array<vec4<f32>>;          // [heads, N]
@group(0) @binding(11) var<storage, read> segments: array<vec4<u32>>;    // [segments]: first token, length, slot
@group(0) @binding(12) var<storage, read_write> y: array<f32>;           // [tokens, heads, N]

// The vectors of a chunk, then the rows of the state. With a vec4 of padding, a column of two adjacent blocks is in eight banks.
const STRIDE: u32 = VEC4S + 1u;
const AG: u32 = 0u;
const RG: u32 = CHUNK * STRIDE;
const KG: u32 = 2u * CHUNK * STRIDE;
const BG: u32 = 3u * CHUNK * STRIDE;
const STATE: u32 = 4u * CHUNK * STRIDE;
var<workgroup> vectors: array<vec4<f32>, STATE + ROWS_PER_WORKGROUP * STRIDE>;

// At i * PRODUCTS + j: vector i (ag, then rg) times four of the others (kg, then bg, then rows of the state).
const PRODUCTS: u32 = 2u * BLOCKS + ROW_BLOCKS;
const WITH_BG: u32 = BLOCKS;
const WITH_STATE: u32 = 2u * BLOCKS;
var<workgroup> products: array<vec4<f32>, 2u * CHUNK * PRODUCTS>;

// v and delta of each row, four tokens a vec4.
const TOKENS_STRIDE: u32 = BLOCKS + 1u;
var<workgroup> values: array<vec4<f32>, ROWS_PER_WORKGROUP * TOKENS_STRIDE>;
var<workgroup> deltas: array<vec4<f32>, ROWS_PER_WORKGROUP * TOKENS_STRIDE>;

var<workgroup> chunk_decay: array<vec4<f32>, VEC4S>;
// Of the next chunk, for each block and vec4: the product of the block's decays; the squares of its four removal keys.
var<workgroup> block_decay: array<vec4<f32>, STAGING_THREADS>;
var<workgroup> block_squares: array<vec4<f32>, STAGING_THREADS>;

// What a thread stages of a chunk: a vec4 of four tokens, four values of a row.
struct Staged {
    r: array<vec4<f32>, 4>,
    decay: array<vec4<f32>, 4>,
    k: array<vec4<f32>, 4>,
    a: array<vec4<f32>, 4>,
    v: vec4<f32>,
    v_first: vec4<f32>,
    gate: vec4<f32>,
}

// Where a workgroup and a thread are.
struct Place {
    end: u32,               // behind the last token of the segment
    row: u32,               // first row of the workgroup in the model
    stages: bool,           // whether the thread stages vectors
    block: u32,             // the tokens that it stages
    c: u32,                 // the vec4 of a head that it stages
    head_c: u32,            // the same in a token
    k_k: vec4<f32>,
    k_a: vec4<f32>,
}

// The last components are added last: they are the last to be known.
fn add_dot(sum: f32, x: vec4<f32>, y: vec4<f32>) -> f32 {
    return fma(x.w, y.w, fma(x.z, y.z, fma(x.y, y.y, fma(x.x, y.x, sum))));
}

// Issues the loads of the chunk whose first token is `first`.
fn load_chunk(first: u32, place: Place, tid: u32) -> Staged {
    var staged: Staged;
    if place.stages {
        for (var u = 0u; u < 4u; u++) {     // unroll
            let token = first + place.block * 4u + u;
            let at = token * (params.m / 4u) + place.head_c;
            staged.decay[u] = vec4(1.0);
            if token < place.end {
                staged.r[u] = r[at];
                staged.decay[u] = decay[at];
                staged.k[u] = k[at];
                staged.a[u] = a[at];
            }
        }
    }
    if tid < VALUE_THREADS {
        for (var u = 0u; u < 4u; u++) {     // unroll
            let token = first + tid / ROWS_PER_WORKGROUP * 4u + u;
            let at = token * params.m + place.row + tid % ROWS_PER_WORKGROUP;
            if token < place.end {
                staged.v[u] = v[at];
                staged.v_first[u] = v_first_value(at);
                staged.gate[u] = gate_value(at);
            }
        }
    }
    return staged;
}

// Stores what other blocks and columns of the chunk need. A decay becomes the product from the block's first token on.
fn share_block(staged: ptr<function, Staged>, place: Place) {
    if place.stages {
        var squares: vec4<f32>;
        for (var u = 0u; u < 4u; u++) {     // unroll
            let removal = (*staged).k[u] * place.k_k;
            squares[u] = dot(removal, removal);
        }
        for (var u = 0u; u < 3u; u++) {     // unroll
            (*staged).decay[u + 1u] *= (*staged).decay[u];
        }
        block_decay[place.block * VEC4S + place.c] = (*staged).decay[3];
        block_squares[place.block * VEC4S + place.c] = squares;
    }
}

// Stages ag and rg. Leaves kg in k, bg in a, and P of the last token in decay[3].
fn stage_reads(staged: ptr<function, Staged>, place: Place) {
    if place.stages {
        var squares: vec4<f32>;
        for (var c = 0u; c < VEC4S; c++) {      // unroll 4
            squares += block_squares[place.block * VEC4S + c];
        }
        let by_norm = 1.0 / max(sqrt(squares), vec4(1e-12));
        var before = vec4(1.0);
        for (var b = 0u; b < BLOCKS - 1u; b++) {        // unroll
            before *= select(vec4(1.0), block_decay[b * VEC4S + place.c], b < place.block);
        }
        var decayed = before;
        for (var u = 0u; u < 4u; u++) {     // unroll
            let to = (place.block * 4u + u) * STRIDE + place.c;
            let rate = (*staged).a[u];
            let removal = (*staged).k[u] * place.k_k * by_norm[u];
            vectors[AG + to] = -removal * decayed;
            decayed = before * (*staged).decay[u];
            vectors[RG + to] = (*staged).r[u] * decayed;
            let by_decay = 1.0 / decayed;
            (*staged).k[u] *= (1.0 + (rate - 1.0) * place.k_a) * by_decay;
            (*staged).a[u] = removal * rate * by_decay;
        }
        (*staged).decay[3] = decayed;
    }
}

// Stages the rest of the chunk.
fn stage_writes(staged: Staged, place: Place, tid: u32) {
    if place.stages {
        for (var u = 0u; u < 4u; u++) {     // unroll
            let to = (place.block * 4u + u) * STRIDE + place.c;
            vectors[KG + to] = staged.k[u];
            vectors[BG + to] = staged.a[u];
        }
        if place.block == BLOCKS - 1u {
            chunk_decay[place.c] = staged.decay[3];
        }
    }
    if tid < VALUE_THREADS {
        let value = staged.v + (staged.v_first - staged.v) * staged.gate;
        values[tid % ROWS_PER_WORKGROUP * TOKENS_STRIDE + tid / ROWS_PER_WORKGROUP] = value;
    }
}

// The products of a chunk's vectors with one another and with the state.
fn multiply(tid: u32) {
    for (var round = 0u; round < ROUNDS; round++) {
        let index = round * WG + tid;
        let part = index / ADJACENT_TILES % PARTS;
        let tile = index / (PARTS * ADJACENT_TILES) * ADJACENT_TILES + index % ADJACENT_TILES;
        // The tile's vectors: a block of ag and rg (left), a block of kg, bg and the rows of the state (right).
        let group = tile / 4u;
        let in_chunk = group < CHUNK_GROUPS;
        var left = group / TRIANGLE_GROUPS / 2u * BLOCKS + (group % TRIANGLE_GROUPS + 1u) / 2u * 2u;
        var right = group / TRIANGLE_GROUPS % 2u * BLOCKS + group % TRIANGLE_GROUPS / 2u * 2u;
        if !in_chunk {
            left = (group - CHUNK_GROUPS) % BLOCKS * 2u;
            right = WITH_STATE + (group - CHUNK_GROUPS) / BLOCKS * 2u;
        }
        left += tile / 2u % 2u;
        right += tile % 2u;

        let left_at = left * 4u * STRIDE + part;
        let right_at = KG + right * 4u * STRIDE + part;
        var sums: array<vec4<f32>, 4>;
        for (var step = 0u; step < VEC4S / PARTS; step++) {     // unroll 2
            let c = step * PARTS;
            var x: array<vec4<f32>, 4>;
            for (var i = 0u; i < 4u; i++) {     // unroll
                x[i] = vectors[left_at + i * STRIDE + c];
            }
            for (var j = 0u; j < 4u; j++) {     // unroll
                let w = vectors[right_at + j * STRIDE + c];
                for (var i = 0u; i < 4u; i++) {     // unroll
                    sums[i][j] = add_dot(sums[i][j], x[i], w);
                }
            }
        }

        // Reduce-scatter over the lanes of the tile: lane i ends with the products of vector i.
        let upper = (part & 2u) != 0u;
        for (var i = 0u; i < 2u; i++) {     // unroll
            let sent = select(sums[i + 2u], sums[i], upper);
            let kept = select(sums[i], sums[i + 2u], upper);
            sums[i] = kept + subgroupShuffleXor(sent, 2u * ADJACENT_TILES);
        }
        let odd = (part & 1u) != 0u;
        let sent = select(sums[1], sums[0], odd);
        var sum = select(sums[0], sums[1], odd) + subgroupShuffleXor(sent, ADJACENT_TILES);
        if in_chunk {
            // A token meets none after it.
            let token = left % BLOCKS * 4u + part;
            let others = right % BLOCKS * 4u + vec4(0u, 1u, 2u, 3u);
            sum = select(vec4(0.0), sum, others <= vec4(token));
        }
        products[(left * 4u + part) * PRODUCTS + right] = sum;
    }
}

// delta of one row, token after token.
fn solve(row: u32) {
    var value: array<vec4<f32>, BLOCKS>;
    var delta: array<vec4<f32>, BLOCKS>;
    for (var b = 0u; b < BLOCKS; b++) {     // unroll
        value[b] = values[row * TOKENS_STRIDE + b];
        for (var u = 0u; u < 4u; u++) {     // unroll
            const at = (b * 4u + u) * PRODUCTS;
            var sum = products[at + WITH_STATE + row / 4u][row % 4u];
            for (var c = 0u; c < BLOCKS - 1u; c++) {        // unroll
                if c < b {
                    sum = add_dot(sum, products[at + c], value[c]);
                    sum = add_dot(sum, products[at + WITH_BG + c], delta[c]);
                }
            }
            for (var w = 0u; w < 3u; w++) {     // unroll
                if w < u {
                    sum = fma(products[at + b][w], value[b][w], sum);
                    sum = fma(products[at + WITH_BG + b][w], delta[b][w], sum);
                }
            }
            delta[b][u] = sum;
        }
        deltas[row * TOKENS_STRIDE + b] = delta[b];
    }
}

// Brings a vec4 of ROWS_PER_THREAD rows of the state to the end of the chunk. Adjacent lanes load the same vectors.
fn update(unit: u32) {
    let c = unit / 2u % VEC4S;
    let row = (unit / (2u * VEC4S) * 2u + unit % 2u) * ROWS_PER_THREAD;
    var s: array<vec4<f32>, ROWS_PER_THREAD>;
    for (var i = 0u; i < ROWS_PER_THREAD; i++) {        // unroll
        s[i] = vectors[STATE + (row + i) * STRIDE + c];
    }
    for (var b = 0u; b < BLOCKS; b++) {     // unroll 2
        var value: array<vec4<f32>, ROWS_PER_THREAD>;
        var delta: array<vec4<f32>, ROWS_PER_THREAD>;
        for (var i = 0u; i < ROWS_PER_THREAD; i++) {        // unroll
            value[i] = values[(row + i) * TOKENS_STRIDE + b];
            delta[i] = deltas[(row + i) * TOKENS_STRIDE + b];
        }
        for (var u = 0u; u < 4u; u++) {     // unroll
            let at = (b * 4u + u) * STRIDE + c;
            let kg = vectors[KG + at];
            let bg = vectors[BG + at];
            for (var i = 0u; i < ROWS_PER_THREAD; i++) {        // unroll
                s[i] = fma(vec4(value[i][u]), kg, s[i]);
                s[i] = fma(vec4(delta[i][u]), bg, s[i]);
            }
        }
    }
    for (var i = 0u; i < ROWS_PER_THREAD; i++) {        // unroll
        vectors[STATE + (row + i) * STRIDE + c] = s[i] * chunk_decay[c];
    }
}

// y of two rows and two tokens; `first` is the first token of the chunk.
fn read_out(unit: u32, first: u32, place: Place) {
    let row = unit % (ROWS_PER_WORKGROUP / 2u);
    let other_row = row + ROWS_PER_WORKGROUP / 2u;
    let token = unit / (ROWS_PER_WORKGROUP / 2u) * 2u;
    let at = (CHUNK + token) * PRODUCTS;
    let next_at = at + PRODUCTS;
    var sums = vec4(
        products[at + WITH_STATE + row / 4u][row % 4u],
        products[at + WITH_STATE + other_row / 4u][other_row % 4u],
        products[next_at + WITH_STATE + row / 4u][row % 4u],
        products[next_at + WITH_STATE + other_row / 4u][other_row % 4u],
    );
    for (var b = 0u; b <= token / 4u; b++) {
        let with_kg = products[at + b];
        let next_with_kg = products[next_at + b];
        let value = values[row * TOKENS_STRIDE + b];
        let other_value = values[other_row * TOKENS_STRIDE + b];
        sums.x = add_dot(sums.x, with_kg, value);
        sums.y = add_dot(sums.y, with_kg, other_value);
        sums.z = add_dot(sums.z, next_with_kg, value);
        sums.w = add_dot(sums.w, next_with_kg, other_value);
        let with_bg = products[at + WITH_BG + b];
        let next_with_bg = products[next_at + WITH_BG + b];
        let delta = deltas[row * TOKENS_STRIDE + b];
        let other_delta = deltas[other_row * TOKENS_STRIDE + b];
        sums.x = add_dot(sums.x, with_bg, delta);
        sums.y = add_dot(sums.y, with_bg, other_delta);
        sums.z = add_dot(sums.z, next_with_bg, delta);
        sums.w = add_dot(sums.w, next_with_bg, other_delta);
    }
    let to = (first + token) * params.m + place.row;
    if first + token < place.end {
        y[to + row] = sums.x;
        y[to + other_row] = sums.y;
    }
    if first + token + 1u < place.end {
        y[to + params.m + row] = sums.z;
        y[to + params.m + other_row] = sums.w;
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    const workgroups_per_head = N / ROWS_PER_WORKGROUP;
    const updates = ROWS_PER_WORKGROUP / ROWS_PER_THREAD * VEC4S;
    const reads = ROWS_PER_WORKGROUP * CHUNK / 4u;
    let index = workgroup_index(workgroup, grid);
    if index >= params.segments * params.heads * workgroups_per_head {
        return;
    }
    let segment = segments[index / (params.heads * workgroups_per_head)];
    let head = index / workgroups_per_head % params.heads;
    var place: Place;
    place.end = segment.x + segment.y;
    place.row = head * N + index % workgroups_per_head * ROWS_PER_WORKGROUP;
    place.stages = tid >= WG - STAGING_THREADS;
    if place.stages {
        let stager = tid - (WG - STAGING_THREADS);
        place.block = stager / VEC4S;
        place.c = stager % VEC4S;
        place.head_c = head * VEC4S + place.c;
        place.k_k = k_k[place.head_c];
        place.k_a = k_a[place.head_c];
    }
    let home = (segment.z * params.m + place.row) * VEC4S;
    for (var i = tid; i < ROWS_PER_WORKGROUP * VEC4S; i += WG) {
        vectors[STATE + i / VEC4S * STRIDE + i % VEC4S] = state_load(home + i);
    }

    var staged = load_chunk(segment.x, place, tid);
    share_block(&staged, place);
    workgroupBarrier();
    stage_reads(&staged, place);
    for (var done = 0u; done < segment.y; done += CHUNK) {
        stage_writes(staged, place, tid);
        workgroupBarrier();
        staged = load_chunk(segment.x + done + CHUNK, place, tid);
        multiply(tid);
        share_block(&staged, place);
        workgroupBarrier();
        if tid < ROWS_PER_WORKGROUP {
            solve(tid);
        }
        stage_reads(&staged, place);
        workgroupBarrier();
        for (var unit = tid; unit < updates + reads; unit += WG) {
            if unit < updates {
                update(unit);
            } else {
                read_out(unit - updates, segment.x + done, place);
            }
        }
        workgroupBarrier();
    }
    for (var i = tid; i < ROWS_PER_WORKGROUP * VEC4S; i += WG) {
        state_store(home + i, vectors[STATE + i / VEC4S * STRIDE + i % VEC4S]);
    }
}
