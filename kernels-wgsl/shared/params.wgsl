// The sizes of one dispatch; one layout for every op (its twin is Site::params in crates/kernels/src/site.rs).
struct Params {
    rows: u32,          // rows of y: tokens, or requested outputs
    k: u32,             // columns of the first input
    m: u32,             // columns of y
    heads: u32,
    segments: u32,
    first: u32,         // first weight row of this window: large matrices are bound in pieces
    window: u32,        // weight rows in this window
    eps: f32,
    ranks: vec4<u32>,   // adapter ranks: decay, in-context learning rate, value, gate
}
@group(0) @binding(0) var<uniform> params: Params;
