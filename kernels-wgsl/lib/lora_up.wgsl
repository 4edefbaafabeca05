// What kernels of the adapters' second halves share. x holds the adapters' hidden values side by side, perhaps in a wider row;
// y has planes decay, in-context learning rate, value gate, gate. Without a value adapter (rank 0) its plane is left alone.
#import lib/op
#import lib/vector as w0 binding 6
#import lib/vector as a0 binding 7
#import lib/vector as v0 binding 8

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [rows, k]: hidden values w, a, v, g side by side
@group(0) @binding(9) var<storage, read_write> y: array<f32>;    // [4, rows, m]: planes decay, a, value gate, g

// The first of an adapter's columns of x.
fn column_of(adapter: u32) -> u32 {
    let ranks = params.ranks;
    var before = vec4(0u, ranks.x, ranks.x + ranks.y, ranks.x + ranks.y + ranks.z);
    return before[adapter];
}

// Stores a sum of products.
fn store_sum(adapter: u32, token: u32, c: u32, sum: f32) {
    if token >= params.rows || c >= params.m {
        return;
    }
    var finished = sum;
    switch adapter {
        case 0u: { finished = activate(DECAY, w0_value(c) + sum); }
        case 1u: { finished = sigmoid(a0_value(c) + sum); }
        case 2u: { finished = sigmoid(v0_value(c) + sum); }
        default: {}
    }
    y[(adapter * params.rows + token) * params.m + c] = finished;
}
