// lib/project by dot products of rows: a workgroup takes a block, BLOCK_ROWS rows of one matrix and TOKENS tokens.
//
// With packed loads (`project_block`) THREADS_PER_ROW lanes take ROWS rows. w_r, w_k and w_v take x from storage, or
// where
// `ROUNDED`, the block's tokens staged. The adapters multiply x in f32.
// requires: const BLOCK_ROWS, K, ROUNDED, ROWS, THREADS_PER_ROW, TOKENS, WG
#import lib/project
#import lib/gemv/dot_rows as w_r
#import lib/gemv/dot_rows as w_k
#import lib/gemv/dot_rows as w_v
#import lib/gemv/dot_rows as w1
#import lib/gemv/dot_rows as a1
#import lib/gemv/dot_rows as v1
#import lib/gemv/dot_rows as g1

const V1_VALUES_PER_LOAD: u32 = select(32u, v1_values_per_load, v1_is_present);
const MATRIX_VALUES_PER_LOAD: u32 = min(w_r_values_per_load, min(w_k_values_per_load, w_v_values_per_load));
const ADAPTER_VALUES_PER_LOAD: u32 = min(min(w1_values_per_load, a1_values_per_load), min(V1_VALUES_PER_LOAD, g1_values_per_load));
// Packed loads of the longest row in the format that needs most.
const LOADS: u32 = K / min(MATRIX_VALUES_PER_LOAD, ADAPTER_VALUES_PER_LOAD);
// Blocks of the adapters, then one that clears what no adapter fills.
const DECAY_ICLR_BLOCKS: u32 = (RANK_DECAY + BLOCK_ROWS - 1u) / BLOCK_ROWS + (RANK_ICLR + BLOCK_ROWS - 1u) / BLOCK_ROWS;
const VALUE_GATE_BLOCKS: u32 = (RANK_VALUE + BLOCK_ROWS - 1u) / BLOCK_ROWS + (RANK_GATE + BLOCK_ROWS - 1u) / BLOCK_ROWS;
const ADAPTER_BLOCKS: u32 = DECAY_ICLR_BLOCKS + VALUE_GATE_BLOCKS + 1u;

struct RowBlock {
    matrix: u32,
    row: u32,       // first row of the matrix
    token: u32,     // first token
}

// No block has rows of two matrices: all of its threads take one path. The adapters come first: their rows are the longest to
// read. Workgroups past the last block get rows past the first of what no adapter fills.
fn row_block_of(number: u32) -> RowBlock {
    return row_block_among(number, REST);
}

// The same among the first `matrices` in that order: of the four adapters, if 4.
fn row_block_among(number: u32, matrices: u32) -> RowBlock {
    let token_blocks = (params.rows + TOKENS - 1u) / TOKENS;
    let token = number % token_blocks * TOKENS;
    var index = number / token_blocks;
    for (var i = 0u; i < matrices; i++) {
        let matrix = (i + 3u) % REST;
        let blocks = (rows_of(matrix) + BLOCK_ROWS - 1u) / BLOCK_ROWS;
        if index < blocks {
            return RowBlock(matrix, index * BLOCK_ROWS, token);
        }
        index -= blocks;
    }
    return RowBlock(REST, index * BLOCK_ROWS, token);
}

// Stores the sum of row `i` and token `t` of a block.
fn store_sum(block: RowBlock, i: u32, t: u32, sum: f32) {
    let row = block.row + i;
    let token = block.token + t;
    if row >= rows_of(block.matrix) || token >= params.rows {
        return;
    }
    if block.matrix < 3u {
        y[(block.matrix * params.rows + token) * params.m + row] = sum;
        return;
    }
    store_hidden(block.matrix, row, token, sum);
}

// The part of the fourth plane that no adapter fills.
fn clear_rest(block: RowBlock, tid: u32) {
    if block.row > 0u {
        return;
    }
    let ranks = params.ranks;
    for (var token = block.token; token < min(block.token + TOKENS, params.rows); token++) {
        for (var c = ranks.x + ranks.y + ranks.z + ranks.w + tid; c < params.m; c += WG) {
            y[(3u * params.rows + token) * params.m + c] = 0.0;
        }
    }
}

fn x_vec4(i: u32) -> vec4<f32> {
    return x[i];
}

// The share of lane `row_lane` in the sums of ROWS rows from `row` on.
fn dot_packed(block: RowBlock, row: u32, row_lane: u32) -> array<f32, ROWS * TOKENS> {
    let plane = plane_of(block.matrix) * params.rows;
    let last = rows_of(block.matrix) - 1u;
    let token = plane + block.token;
    let last_token = plane + params.rows - 1u;
    let first = select(token, 0u, ROUNDED);
    let x_last = select(last_token, TOKENS - 1u, ROUNDED);
    switch block.matrix {
        case 0u: { return w_r_dot_rows(row, last, first, x_last, row_lane); }
        case 1u: { return w_k_dot_rows(row, last, first, x_last, row_lane); }
        case 2u: { return w_v_dot_rows(row, last, first, x_last, row_lane); }
        case 3u: { return w1_dot_rows(row, last, token, last_token, row_lane); }
        case 4u: { return a1_dot_rows(row, last, token, last_token, row_lane); }
        case 5u: { return v1_dot_rows(row, last, token, last_token, row_lane); }
        default: { return g1_dot_rows(row, last, token, last_token, row_lane); }
    }
}

fn project_block(block: RowBlock, tid: u32) {
    let row = tid / THREADS_PER_ROW * ROWS;
    let row_lane = tid % THREADS_PER_ROW;
    var sums = dot_packed(block, block.row + row, row_lane);
    for (var i = 0u; i < ROWS; i++) {           // unroll
        for (var t = 0u; t < TOKENS; t++) {     // unroll
            let sum = row_sum(sums[i * TOKENS + t]);
            if row_lane == 0u {
                store_sum(block, row + i, t, sum);
            }
        }
    }
}
