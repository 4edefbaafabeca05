//! Finds a race. `cargo run -p wgoose-sanitizer --example race`

use wgoose_sanitizer::{Buffer, Dispatch, Order, SanitizerError, Shader};

const REVERSED: &str = "@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
var<workgroup> tile: array<u32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) tid: u32) {
    tile[tid] = x[tid];
    // Here a workgroupBarrier() is missing.
    y[tid] = tile[63u - tid];
}
";

fn main() -> Result<(), SanitizerError> {
    let shader = Shader::parse(REVERSED)?;
    let dispatch = Dispatch::new([1, 1, 1]).bind(0, Buffer::of(vec![7; 256])).bind(1, Buffer::unwritten(256));
    for fault in shader.check(&dispatch, &[Order::Forward, Order::Backward])?.faults() {
        println!("{fault}");
    }
    Ok(())
}
