// The products of a block of `project` with LANES invocations of a subgroup for ROWS rows, read in pieces. Needs `const
// K, WG, LANES, ROWS, TOKENS, UNROLL` and columns for w_r, w_k and w_v: of x, or where `ROUNDED`, of the block's tokens in
// workgroup memory. The adapters meet x as it is.
#import project
#import reduce_lanes
#import piece/f16 as w_r binding 2
#import piece/f16 as w_k binding 3
#import piece/f16 as w_v binding 4
#import piece/f32 as w1 binding 5
#import piece/f16 as a1 binding 6
#import piece/f16 as v1 binding 7
#import piece/f16 as g1 binding 8
#import row_dots as w_r
#import row_dots as w_k
#import row_dots as w_v
#import row_dots as w1
#import row_dots as a1
#import row_dots as v1
#import row_dots as g1

const BLOCK_ROWS: u32 = WG / LANES * ROWS;

fn x_quad(i: u32) -> vec4<f32> {
    return x[i];
}

// The share of invocation `own` of LANES in the sums of ROWS rows from `row` on.
fn shares(block: Block, row: u32, own: u32) -> array<f32, ROWS * TOKENS> {
    let plane = plane_of(block.matrix) * params.rows;
    let last = rows_of(block.matrix) - 1u;
    let token = plane + block.token;
    let last_token = plane + params.rows - 1u;
    let first = select(token, 0u, ROUNDED);
    let x_last = select(last_token, TOKENS - 1u, ROUNDED);
    switch block.matrix {
        case 0u: { return w_r_dots(row, last, first, x_last, own); }
        case 1u: { return w_k_dots(row, last, first, x_last, own); }
        case 2u: { return w_v_dots(row, last, first, x_last, own); }
        case 3u: { return w1_dots(row, last, token, last_token, own); }
        case 4u: { return a1_dots(row, last, token, last_token, own); }
        case 5u: { return v1_dots(row, last, token, last_token, own); }
        default: { return g1_dots(row, last, token, last_token, own); }
    }
}

fn project(block: Block, lane: u32) {
    let row = lane / LANES * ROWS;
    let own = lane % LANES;
    var sums = shares(block, block.row + row, own);
    for (var i = 0u; i < ROWS; i++) {           // unroll
        for (var t = 0u; t < TOKENS; t++) {     // unroll
            let sum = lanes_sum(sums[i * TOKENS + t]);
            if own == 0u {
                keep(block, row + i, t, sum);
            }
        }
    }
}
