// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): random numbers by number, without a
// state.

fn wide_product(a: u32, b: u32) -> vec2<u32> {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let middle = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let other = (a & 0xffffu) * (b >> 16u) + (middle & 0xffffu);
    return vec2(a * b, (a >> 16u) * (b >> 16u) + (middle >> 16u) + (other >> 16u));
}

fn philox(counter: vec4<u32>, seed: vec2<u32>) -> vec4<u32> {
    var x = counter;
    var key = seed;
    for (var round = 0u; round < 10u; round++) {
        let a = wide_product(0xD2511F53u, x.x);
        let b = wide_product(0xCD9E8D57u, x.z);
        x = vec4(b.y ^ x.y ^ key.x, b.x, a.y ^ x.w ^ key.y, a.x);
        key += vec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return x;
}
