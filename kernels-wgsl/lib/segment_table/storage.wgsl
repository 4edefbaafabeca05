// Of each segment its first token, its length and its state slot, as a storage buffer like every other operand.
@group(0) @binding(8) var<storage, read> segments: array<vec4<u32>>;    // [segments]: first token, length, slot
