// needs: subgroups
// Products that norm their x themselves: a fixed grid of workgroups, each of which has the layer norm of a token's row and of the
// row before it, which may be the state, in registers: VEC4S_PER_THREAD vec4s of columns a thread, WG apart.
// `stage_vec4` and `finish_staging` stage the x that is multiplied.
// requires: const ADAPTER_ROW_COST, GRID, K, W1_ROW_COST, WG, var scratch, y, fn finish_staging, gemv_rows, prefetch
// requires: fn stage_vec4
#import lib/op

const VEC4S: u32 = K / 4u;
const VEC4S_PER_THREAD: u32 = (VEC4S + WG - 1u) / WG;

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;           // [tokens, k]
@group(0) @binding(2) var<storage, read> scale: array<vec4<f32>>;       // [k]
@group(0) @binding(3) var<storage, read> bias: array<vec4<f32>>;        // [k]
@group(0) @binding(4) var<storage, read> mix: array<vec4<f32>>;         // [planes, k]
@group(0) @binding(5) var<storage, read> state: array<vec4<f32>>;       // [slots, k]
@group(0) @binding(6) var<storage, read> token_segments: array<u32>;    // [tokens]
@group(0) @binding(7) var<storage, read> segments: array<vec4<u32>>;    // [segments]: first token, length, slot

// A thread of a workgroup, and of a subgroup.
struct Thread {
    @builtin(local_invocation_index) tid: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) num_subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
}

struct NormedRows {
    own: array<vec4<f32>, VEC4S_PER_THREAD>,
    delta: array<vec4<f32>, VEC4S_PER_THREAD>,      // from the token's row to the one before
}

// Of the subgroups, which have at least 4 threads: how many columns they have, their mean, and the sum of squares about that
// mean.
var<workgroup> counts: array<f32, WG / 4u>;
var<workgroup> subgroup_means: array<vec2<f32>, WG / 4u>;

fn load_row(row: u32, tid: u32) -> array<vec4<f32>, VEC4S_PER_THREAD> {
    var values: array<vec4<f32>, VEC4S_PER_THREAD>;
    for (var i = 0u; i < VEC4S_PER_THREAD; i++) {       // unroll
        if tid + i * WG < VEC4S {
            values[i] = x[row * VEC4S + tid + i * WG];
        }
    }
    return values;
}

// Mean and 1 / standard deviation of a row, with one barrier: subgroups sum squares about their own means, which are then compared
// with that of the first (Chan, Golub, LeVeque 1983), so that a row far from 0 loses nothing.
fn mean_rstd(thread: Thread, values: array<vec4<f32>, VEC4S_PER_THREAD>) -> vec2<f32> {
    var sum = vec2(0.0);                    // of the columns, and how many there are
    for (var i = 0u; i < VEC4S_PER_THREAD; i++) {       // unroll
        if thread.tid + i * WG < VEC4S {
            sum += vec2(dot(values[i], vec4(1.0)), 4.0);
        }
    }
    sum = subgroupAdd(sum);
    let mean = sum.x / max(sum.y, 1.0);
    var squares = 0.0;
    for (var i = 0u; i < VEC4S_PER_THREAD; i++) {       // unroll
        if thread.tid + i * WG < VEC4S {
            let d = values[i] - mean;
            squares += dot(d, d);
        }
    }
    squares = subgroupAdd(squares);
    if thread.lane == 0u {
        counts[thread.subgroup] = sum.y;
        subgroup_means[thread.subgroup] = vec2(mean, squares);
    }
    workgroupBarrier();
    let pivot = subgroup_means[0].x;
    var all = vec2(0.0);                    // sums of differences from the pivot, and of their squares
    for (var block = 0u; block < thread.num_subgroups; block += WG / thread.num_subgroups) {
        let i = block + thread.lane;
        if i < thread.num_subgroups {
            let part = subgroup_means[i];
            let d = part.x - pivot;
            all += vec2(counts[i] * d, part.y + counts[i] * d * d);
        }
    }
    let means = subgroupAdd(all) / f32(K);
    return vec2(pivot + means.x, inverseSqrt(max(means.y - means.x * means.x, 0.0) + params.eps));
}

// What a norm needs beside x.
struct NormInputs {
    segment: vec4<u32>,
    scales: array<vec4<f32>, VEC4S_PER_THREAD>,
    biases: array<vec4<f32>, VEC4S_PER_THREAD>,
    before: array<vec4<f32>, VEC4S_PER_THREAD>,      // the row before the segment's first
}

fn norm_inputs(token: u32, tid: u32) -> NormInputs {
    var inputs: NormInputs;
    // With one row in all there is one segment.
    var number = 0u;
    if params.rows > 1u {
        number = token_segments[token];
    }
    inputs.segment = segments[number];
    for (var i = 0u; i < VEC4S_PER_THREAD; i++) {       // unroll
        if tid + i * WG < VEC4S {
            inputs.scales[i] = scale[tid + i * WG];
            inputs.biases[i] = bias[tid + i * WG];
            inputs.before[i] = state[inputs.segment.z * VEC4S + tid + i * WG];
        }
    }
    return inputs;
}

fn norm_rows(thread: Thread, token: u32, inputs: NormInputs) -> NormedRows {
    let tid = thread.tid;
    let own = load_row(token, tid);
    var before = inputs.before;
    var rows: NormedRows;
    let own_norm = mean_rstd(thread, own);
    for (var i = 0u; i < VEC4S_PER_THREAD; i++) {       // unroll
        rows.own[i] = (own[i] - own_norm.x) * own_norm.y * inputs.scales[i] + inputs.biases[i];
    }
    // With one row in all, compilers see that there is none before it.
    if params.rows > 1u && token != inputs.segment.x {
        let other = load_row(token - 1u, tid);
        workgroupBarrier();
        let other_norm = mean_rstd(thread, other);
        for (var i = 0u; i < VEC4S_PER_THREAD; i++) {       // unroll
            before[i] = (other[i] - other_norm.x) * other_norm.y * inputs.scales[i] + inputs.biases[i];
        }
    }
    for (var i = 0u; i < VEC4S_PER_THREAD; i++) {       // unroll
        rows.delta[i] = before[i] - rows.own[i];
    }
    return rows;
}

// This thread's columns of a mix.
fn load_mixes(plane: u32, tid: u32) -> array<vec4<f32>, VEC4S_PER_THREAD> {
    var mixes: array<vec4<f32>, VEC4S_PER_THREAD>;
    for (var i = 0u; i < VEC4S_PER_THREAD; i++) {       // unroll
        if tid + i * WG < VEC4S {
            mixes[i] = mix[plane * VEC4S + tid + i * WG];
        }
    }
    return mixes;
}

// Stores the normed row from `at` on.
fn store_normed(rows: NormedRows, tid: u32, at: u32) {
    for (var i = 0u; i < VEC4S_PER_THREAD; i++) {       // unroll
        let v = tid + i * WG;
        if v < VEC4S {
            y[at + 4u * v] = rows.own[i].x;
            y[at + 4u * v + 1u] = rows.own[i].y;
            y[at + 4u * v + 2u] = rows.own[i].z;
            y[at + 4u * v + 3u] = rows.own[i].w;
        }
    }
}

// Stages vec4 `i` of x for matrices that multiply in f32.
fn stage_f32(i: u32, value: vec4<f32>) {
    scratch[i] = bitcast<vec4<u32>>(value);
}

fn x_vec4(i: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(scratch[i]);
}

// Norm, token shift, lerp and product in one: the rows of w are split among GRID workgroups, each of which norms the token's row
// itself. The last one, which always has rows, stores the normed row.
fn norm_matmul(index: u32, thread: Thread) {
    let tid = thread.tid;
    let token = index / GRID;
    let part = index % GRID;
    let begin = part * params.shard_rows / GRID;
    let end = (part + 1u) * params.shard_rows / GRID;
    let in_flight = w_prefetch(begin, end, tid);
    let mixes = load_mixes(0u, tid);
    let inputs = norm_inputs(min(token, params.rows - 1u), tid);
    let ready = grid_dependency_wait(tid);
    if token >= params.rows || begin == end {
        return;
    }
    let rows = norm_rows(thread, token + ready, inputs);
    for (var i = 0u; i < VEC4S_PER_THREAD; i++) { // unroll
        stage_vec4(tid + i * WG, tid + i * WG < VEC4S, rows.own[i] + rows.delta[i] * mixes[i]);
    }
    finish_staging(tid);
    w_gemv_rows(begin, end, token * params.m + params.first, ACTIVATION, tid, in_flight);
    if part == GRID - 1u {
        store_normed(rows, tid, (params.rows + token) * params.m);
    }
}

// The matrices in the order in which their rows are split: w1, a1, v1, g1, w_r, w_k, w_v.
const MATRICES: u32 = 7u;
const ADAPTERS: u32 = 4u;

fn rows_of(matrix: u32) -> u32 {
    if matrix < ADAPTERS {
        return params.ranks[matrix];
    }
    return params.m;
}

// The first row of workgroup `part`, of all rows in order. Each matrix gets workgroups of its own where it fills half of one: a
// workgroup with rows of two matrices stages and loads twice, and all others wait.
fn first_row_of(part: u32) -> u32 {
    if part == 0u {
        return 0u;
    }
    let rest = params.ranks.y + params.ranks.z + params.ranks.w;
    let all = params.ranks.x * W1_ROW_COST + rest * ADAPTER_ROW_COST + 3u * params.m;
    var before = 0u;
    var cost = 0u;
    var first = 0u;
    for (var matrix = 0u; matrix < MATRICES; matrix++) {
        let rows = rows_of(matrix);
        cost += rows * select(select(1u, ADAPTER_ROW_COST, matrix < ADAPTERS), W1_ROW_COST, matrix == 0u);
        let past = (cost * GRID + all / 2u) / all;
        if part < past {
            return before + (part - first) * rows / (past - first);
        }
        before += rows;
        first = past;
    }
    return before;
}

// The rows of a workgroup, from `begin` to `end`; the first matrix that it has rows of, and how many rows come before that.
struct RowRange {
    known: u32,     // its number, from 1 on
    begin: u32,
    end: u32,
    matrix: u32,
    before: u32,
}

// In a persistent kernel it is the same in every layer.
var<private> row_range: RowRange;

fn row_range_of(part: u32) -> RowRange {
    if row_range.known != part + 1u {
        let begin = first_row_of(part);
        var matrix = 0u;
        var before = 0u;
        while matrix + 1u < MATRICES && before + rows_of(matrix) <= begin {
            before += rows_of(matrix);
            matrix++;
        }
        row_range = RowRange(part + 1u, begin, first_row_of(part + 1u), matrix, before);
    }
    // With this, compilers see that a whole subgroup takes one path.
    return RowRange(
        row_range.known,
        subgroupBroadcastFirst(row_range.begin),
        subgroupBroadcastFirst(row_range.end),
        subgroupBroadcastFirst(row_range.matrix),
        subgroupBroadcastFirst(row_range.before),
    );
}

// The plane of lerped columns that a matrix reads.
fn plane_of(matrix: u32) -> u32 {
    var planes = array(1u, 4u, 3u, 5u, 0u, 2u, 3u);
    return planes[matrix];
}

// Norm, token shift, six lerps and the products of `project` in one: the rows of the seven matrices are split among GRID
// workgroups, each of which norms the token's row itself and stages what its rows multiply, matrix after matrix. The last one,
// which always has rows, stores the normed row, and zeros where no adapter fills the fourth plane. The adapters multiply x in
// f32. `prefetch` and `gemv_rows` take the number of a matrix.
fn norm_project(index: u32, thread: Thread) {
    let tid = thread.tid;
    let token = index / GRID;
    let part = index % GRID;
    let is_there = token < params.rows;
    let own = row_range_of(part);
    let begin = own.begin;
    let end = select(begin, own.end, is_there);
    var matrix = own.matrix;
    var before = own.before;
    var first = begin - before;
    var past = min(end - before, rows_of(matrix));
    var rows: NormedRows;
    var is_normed = false;
    while first < past {
        let in_flight = prefetch(matrix, first, past, thread);
        let mixes = load_mixes(plane_of(matrix), tid);
        if is_normed {
            workgroupBarrier();
        } else {
            let inputs = norm_inputs(token, tid);
            let ready = grid_dependency_wait(tid);
            rows = norm_rows(thread, token + ready, inputs);
            is_normed = true;
        }
        for (var i = 0u; i < VEC4S_PER_THREAD; i++) {       // unroll
            let lerp = rows.own[i] + rows.delta[i] * mixes[i];
            let is_there = tid + i * WG < VEC4S;
            if matrix >= ADAPTERS {
                stage_vec4(tid + i * WG, is_there, lerp);
            } else if is_there {
                stage_f32(tid + i * WG, lerp);
            }
        }
        if matrix >= ADAPTERS {
            finish_staging(tid);
        } else {
            workgroupBarrier();
        }
        // The adapters' rows lie one after another in the fourth plane.
        let is_adapter = matrix < ADAPTERS;
        let plane = select(matrix - ADAPTERS, 3u, is_adapter);
        let at = (plane * params.rows + token) * params.m + select(0u, before, is_adapter);
        gemv_rows(matrix, first, past, at, thread, in_flight);

        // The next matrix with rows for this workgroup, if there is one.
        first = 0u;
        past = 0u;
        while matrix + 1u < MATRICES && first == past {
            before += rows_of(matrix);
            matrix++;
            past = min(max(end, before) - before, rows_of(matrix));
        }
    }
    if !is_normed {
        grid_dependency_wait(tid);
    } else if part == GRID - 1u {
        store_normed(rows, tid, (4u * params.rows + token) * params.m);
        let ranks = params.ranks;
        for (var c = ranks.x + ranks.y + ranks.z + ranks.w + tid; c < params.m; c += WG) {
            y[(3u * params.rows + token) * params.m + c] = 0.0;
        }
    }
}
