// Twin of wgoose_graph::Activation.
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
        // costs absolute error only (1e-7), where the op tolerance is absolute too.
        case TANH: { return 1.0 - 2.0 / (exp(2.0 * x) + 1.0); }
        case SIGMOID: { return sigmoid(x); }
        case RELU_SQUARED: { let p = max(x, 0.0); return p * p; }
        // exp(-1/2) = 0.6065306597
        case DECAY: { return exp(-0.6065306597 * sigmoid(x)); }
        default: { return x; }
    }
}
