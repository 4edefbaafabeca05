// Weights addressed by byte, for formats whose blocks are only aligned to two bytes.
@group(0) @binding(0) var<storage, read> weight: array<u32>;

// The 16 bits at an even byte address.
fn weight_half(at: u32) -> u32 {
    return (weight[at / 4u] >> ((at & 2u) * 8u)) & 0xffffu;
}

// The 32 bits at an even byte address.
fn weight_word(at: u32) -> u32 {
    let i = at / 4u;
    if (at & 2u) == 0u {
        return weight[i];
    }
    return (weight[i] >> 16u) | (weight[i + 1u] << 16u);
}
