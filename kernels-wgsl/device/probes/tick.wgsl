// The least that a dispatch can do: one workgroup counts up one element.
#import device/probes/params

@group(0) @binding(2) var<storage, read_write> y: array<u32>;    // [1]

@compute @workgroup_size(1)
fn main() {
    y[0] += params.rounds;
}
