// What a product does with its sum as it stores it.
#import activation

const ACTIVATION: u32 = NONE;   // op: activation
const ADD: bool = false;        // op: add

// What the sum is added to.
fn residual(at: u32) -> f32 {
    if ADD {
        return y[at];
    }
    return 0.0;
}

fn finish(at: u32, before: f32, sum: f32) {
    if ADD {
        y[at] = before + sum;
    } else {
        y[at] = activate(ACTIVATION, sum);
    }
}

fn store(at: u32, sum: f32) {
    finish(at, residual(at), sum);
}
