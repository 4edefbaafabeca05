// What is computed where, of the products of the six mixed planes r, w, k, v, a, g with the matrices r, k, v and the first
// halves of the adapters: a workgroup takes a block, BLOCK_ROWS rows of one matrix and TOKENS tokens. y has planes r, k, v
// and a fourth with the adapters' hidden values side by side, then zeros. Needs `const WG, BLOCK_ROWS, TOKENS`.
#import params
#import activation

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(9) var<storage, read_write> y: array<f32>;

// Behind the seven matrices: the columns of the fourth plane that no adapter fills.
const REST: u32 = 7u;

struct Block {
    matrix: u32,
    row: u32,       // first row of the matrix
    token: u32,     // first token
}

fn rows_of(matrix: u32) -> u32 {
    if matrix < 3u {
        return params.m;
    }
    return params.ranks[matrix - 3u];
}

// No block has rows of two matrices: all of its invocations take the same way. The adapters come first: their rows are
// the longest to read. Units beyond the last block get rows beyond the first of what no adapter fills.
fn block_of(unit: u32) -> Block {
    return block_among(unit, REST);
}

// The same among the first `matrices` in that order: of the four adapters, if 4.
fn block_among(unit: u32, matrices: u32) -> Block {
    let token_blocks = (params.rows + TOKENS - 1u) / TOKENS;
    let token = unit % token_blocks * TOKENS;
    var index = unit / token_blocks;
    for (var turn = 0u; turn < matrices; turn++) {
        let matrix = (turn + 3u) % REST;
        let blocks = (rows_of(matrix) + BLOCK_ROWS - 1u) / BLOCK_ROWS;
        if index < blocks {
            return Block(matrix, index * BLOCK_ROWS, token);
        }
        index -= blocks;
    }
    return Block(REST, index * BLOCK_ROWS, token);
}

// The plane of x that a matrix meets.
fn plane_of(matrix: u32) -> u32 {
    var planes = array(0u, 2u, 3u, 1u, 4u, 3u, 5u);
    return planes[matrix];
}

// Stores the sum of row `i` and token `t` of a block.
fn keep(block: Block, i: u32, t: u32, sum: f32) {
    let row = block.row + i;
    let token = block.token + t;
    if row >= rows_of(block.matrix) || token >= params.rows {
        return;
    }
    if block.matrix < 3u {
        y[(block.matrix * params.rows + token) * params.m + row] = sum;
        return;
    }
    var column = row;
    for (var matrix = 3u; matrix < block.matrix; matrix++) {
        column += rows_of(matrix);
    }
    var kinds = array(TANH, NONE, NONE, SIGMOID);
    y[(3u * params.rows + token) * params.m + column] = activate(kinds[block.matrix - 3u], sum);
}

// The part of the fourth plane that no adapter fills.
fn clear(block: Block, lane: u32) {
    if block.row > 0u {
        return;
    }
    let ranks = params.ranks;
    for (var token = block.token; token < min(block.token + TOKENS, params.rows); token++) {
        for (var c = ranks.x + ranks.y + ranks.z + ranks.w + lane; c < params.m; c += WG) {
            y[(3u * params.rows + token) * params.m + c] = 0.0;
        }
    }
}
