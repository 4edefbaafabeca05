// The products of the six lerped planes r, w, k, v, a, g with the matrices r, k, v and the first halves of the adapters. y has
// planes r, k, v and a fourth with the adapters' hidden values side by side, then zeros.
#import lib/op
#import lib/quant/* as w_r binding 2
#import lib/quant/* as w_k binding 3
#import lib/quant/* as w_v binding 4
#import lib/quant/* as w1 binding 5
#import lib/quant/* as a1 binding 6
#import lib/quant/* as v1 binding 7
#import lib/quant/* as g1 binding 8

const M: u32 = 256u;            // op: m
const RANK_DECAY: u32 = 32u;    // op: rank_decay
const RANK_ICLR: u32 = 32u;     // op: rank_iclr
const RANK_VALUE: u32 = 32u;    // op: rank_value
const RANK_GATE: u32 = 32u;     // op: rank_gate

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [6, rows, k]: planes r, w, k, v, a, g
@group(0) @binding(9) var<storage, read_write> y: array<f32>;    // [4, rows, m]: planes r, k, v, hidden values

// Behind the seven matrices: the columns of the fourth plane that no adapter fills.
const REST: u32 = 7u;

fn rows_of(matrix: u32) -> u32 {
    if matrix < 3u {
        return params.m;
    }
    return params.ranks[matrix - 3u];
}

// The plane of x that a matrix reads.
fn plane_of(matrix: u32) -> u32 {
    var planes = array(0u, 2u, 3u, 1u, 4u, 3u, 5u);
    return planes[matrix];
}

// Stores a hidden value of an adapter.
fn store_hidden(matrix: u32, row: u32, token: u32, sum: f32) {
    var column = row;
    for (var before = 3u; before < matrix; before++) {
        column += rows_of(before);
    }
    var kinds = array(TANH, NONE, NONE, SIGMOID);
    y[(3u * params.rows + token) * params.m + column] = activate(kinds[matrix - 3u], sum);
}
