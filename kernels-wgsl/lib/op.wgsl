// The frame of an op's kernel: the sizes of its dispatch, its place in the grid, sums over the lanes of a row, the epilogue.
// requires: const THREADS_PER_ROW, var y

// One layout for every op; must match `Params` in crates/kernels/src/params.rs.
struct Params {
    rows: u32,          // rows of y: tokens, or requested outputs
    k: u32,             // columns of the first input
    m: u32,             // columns of y
    heads: u32,
    segments: u32,
    first: u32,         // first weight row of this dispatch: large matrices are bound in row shards
    shard_rows: u32,    // weight rows of this dispatch
    eps: f32,
    ranks: vec4<u32>,   // adapter ranks: decay, in-context learning rate, value, gate
}
@group(0) @binding(0) var<uniform> params: Params;    // [1]

// Dispatches are one-dimensional; beyond 65,535 workgroups they are folded into y.
fn workgroup_index(workgroup: vec3<u32>, grid: vec3<u32>) -> u32 {
    return workgroup.y * grid.x + workgroup.x;
}

// Call exactly once on every path, after issuing every load that does not depend on another phase. Fused, this is the
// grid
// barrier (crates/kernels/src/wgsl/link); alone it returns 0. Add the result to the index of every dependent load.
fn grid_dependency_wait(tid: u32) -> u32 {
    return 0u;
}

// The sum over THREADS_PER_ROW adjacent lanes, a power of two, none above a subgroup's size.
fn row_sum(value: f32) -> f32 {
    var sum = value;
    for (var mask = THREADS_PER_ROW / 2u; mask > 0u; mask /= 2u) {
        sum += subgroupShuffleXor(sum, mask);
    }
    return sum;
}

// Must match wgoose_graph::Activation.
const NONE: u32 = 0u;
const TANH: u32 = 1u;
const SIGMOID: u32 = 2u;
const RELU_SQUARED: u32 = 3u;
const DECAY: u32 = 4u;

fn sigmoid(x: f32) -> f32 {
    return 1.0 / (1.0 + exp(-x));
}

fn activate(kind: u32, x: f32) -> f32 {
    switch kind {
        // The built-in tanh may be inexact near 0 and NaN far out; this form saturates. Its cancellation near 0
        // costs absolute error only (1e-7), where the op's tolerance is absolute too.
        case TANH: { return 1.0 - 2.0 / (exp(2.0 * x) + 1.0); }
        case SIGMOID: { return sigmoid(x); }
        // Times x itself: a maximum may forget NaN.
        case RELU_SQUARED: { return max(x, 0.0) * x; }
        // exp(-1/2) = 0.6065306597
        case DECAY: { return exp(-0.6065306597 * sigmoid(x)); }
        default: { return x; }
    }
}

const ACTIVATION: u32 = NONE;   // op: activation
const ADD: bool = false;        // op: add

// What the sum is added to.
fn load_residual(at: u32) -> f32 {
    if ADD {
        // sanitizer: allow dropped-race: threads without a row load the residual of another's and do not store it
        return y[at];
    }
    return 0.0;
}

// Epilogue with the residual loaded before.
fn store_with(at: u32, residual: f32, sum: f32) {
    if ADD {
        y[at] = residual + sum;
    } else {
        y[at] = activate(ACTIVATION, sum);
    }
}

// Epilogue.
fn store(at: u32, sum: f32) {
    store_with(at, load_residual(at), sum);
}
