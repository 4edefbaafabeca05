// The products of the six mixed planes r, w, k, v, a, g with the matrices r, k, v and the first halves of the adapters,
// ROWS rows of one matrix and TOKENS tokens at a time. Planes r, k, v of y; in the fourth the adapters' hidden values
// side by side, then zeros. Needs `const WG, ROWS, TOKENS`.
#import params
#import activation
#import weight/f16 as w_r binding 2
#import weight/f16 as w_k binding 3
#import weight/f16 as w_v binding 4
#import weight/f32 as w1 binding 5
#import weight/f16 as a1 binding 6
#import weight/f16 as v1 binding 7
#import weight/f16 as g1 binding 8
#import row_products as w_r
#import row_products as w_k
#import row_products as w_v
#import row_products as w1
#import row_products as a1
#import row_products as v1
#import row_products as g1

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(9) var<storage, read_write> y: array<f32>;

// Behind the seven matrices: the columns of the fourth plane that no adapter fills.
const REST: u32 = 7u;

struct Piece {
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

fn blocks_of(matrix: u32) -> u32 {
    return (rows_of(matrix) + ROWS - 1u) / ROWS;
}

// No piece has rows of two matrices: all of its invocations take the same way. Units beyond the last piece get rows
// beyond the first of what no adapter fills.
fn piece_of(unit: u32) -> Piece {
    let token_blocks = (params.rows + TOKENS - 1u) / TOKENS;
    var block = unit / token_blocks;
    var matrix = 0u;
    while matrix < REST && block >= blocks_of(matrix) {
        block -= blocks_of(matrix);
        matrix++;
    }
    return Piece(matrix, block * ROWS, unit % token_blocks * TOKENS);
}

// This invocation's share of a piece's sums.
fn shares(piece: Piece, lane: u32) -> array<f32, ROWS * TOKENS> {
    var planes = array(0u, 2u, 3u, 1u, 4u, 3u, 5u);
    let plane = planes[piece.matrix] * params.rows;
    let row = piece.row;
    let last = rows_of(piece.matrix) - 1u;
    let x_row = plane + piece.token;
    let x_last = plane + params.rows - 1u;
    switch piece.matrix {
        case 0u: { return w_r_products(row, last, x_row, x_last, lane); }
        case 1u: { return w_k_products(row, last, x_row, x_last, lane); }
        case 2u: { return w_v_products(row, last, x_row, x_last, lane); }
        case 3u: { return w1_products(row, last, x_row, x_last, lane); }
        case 4u: { return a1_products(row, last, x_row, x_last, lane); }
        case 5u: { return v1_products(row, last, x_row, x_last, lane); }
        default: { return g1_products(row, last, x_row, x_last, lane); }
    }
}

// Stores the sum of row `i` and token `t` of a piece.
fn keep(piece: Piece, i: u32, t: u32, sum: f32) {
    let row = piece.row + i;
    let token = piece.token + t;
    if row >= rows_of(piece.matrix) || token >= params.rows {
        return;
    }
    if piece.matrix < 3u {
        y[(piece.matrix * params.rows + token) * params.m + row] = sum;
        return;
    }
    var column = row;
    for (var matrix = 3u; matrix < piece.matrix; matrix++) {
        column += rows_of(matrix);
    }
    var kinds = array(TANH, NONE, NONE, SIGMOID);
    y[(3u * params.rows + token) * params.m + column] = activate(kinds[piece.matrix - 3u], sum);
}

// The part of the fourth plane that no adapter fills.
fn clear(piece: Piece, lane: u32) {
    if piece.row > 0u {
        return;
    }
    let ranks = params.ranks;
    for (var token = piece.token; token < min(piece.token + TOKENS, params.rows); token++) {
        for (var c = ranks.x + ranks.y + ranks.z + ranks.w + lane; c < params.m; c += WG) {
            y[(3u * params.rows + token) * params.m + c] = 0.0;
        }
    }
}
