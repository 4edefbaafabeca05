// The products of a block of `project` by workgroups that read ROWS rows of weights in groups of 32. Needs `const WG,
// ROWS, TOKENS`.
#import project
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

const BLOCK_ROWS: u32 = ROWS;

// This invocation's share of a block's sums.
fn shares(block: Block, lane: u32) -> array<f32, ROWS * TOKENS> {
    let plane = plane_of(block.matrix) * params.rows;
    let row = block.row;
    let last = rows_of(block.matrix) - 1u;
    let x_row = plane + block.token;
    let x_last = plane + params.rows - 1u;
    switch block.matrix {
        case 0u: { return w_r_products(row, last, x_row, x_last, lane); }
        case 1u: { return w_k_products(row, last, x_row, x_last, lane); }
        case 2u: { return w_v_products(row, last, x_row, x_last, lane); }
        case 3u: { return w1_products(row, last, x_row, x_last, lane); }
        case 4u: { return a1_products(row, last, x_row, x_last, lane); }
        case 5u: { return v1_products(row, last, x_row, x_last, lane); }
        default: { return g1_products(row, last, x_row, x_last, lane); }
    }
}
