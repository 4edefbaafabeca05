// Of each segment its first token, its length and its state slot, as a uniform block: one storage buffer less, for kernels that
// have one more than WebGPU promises.
// Must match `UNIFORM_SEGMENTS` in crates/runtime/src/schedule/memory.rs.
const MOST_SEGMENTS: u32 = 1024u;

const_assert segments <= MOST_SEGMENTS;     // the table has a fixed size in a uniform block

@group(0) @binding(8) var<uniform> segments: array<vec4<u32>, MOST_SEGMENTS>; // [segments]: first token, length, slot
