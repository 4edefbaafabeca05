// What a product does with its sum as it stores it.
#import activation

const ACTIVATION: u32 = NONE;   // op: activation
const ADD: bool = false;        // op: add

fn store(at: u32, sum: f32) {
    if ADD {
        y[at] += sum;
    } else {
        y[at] = activate(ACTIVATION, sum);
    }
}
