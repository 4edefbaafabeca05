#import weight/q5_k
#import piece/k_scales

fn weight_raw(row: u32, piece: u32) -> vec4<u32> {
    return weight[(row * (K / 256u) + piece / 8u) * 11u + 3u + piece % 8u];
}

fn weight_opened(row: u32, piece: u32, words: vec4<u32>) -> weight_piece {
    let block = (row * (K / 256u) + piece / 8u) * 11u;
    let i = piece % 8u;
    let fifths = weight[block + 1u + i % 2u] >> vec4(i / 2u * 2u);
    let s = weight_scales_mins(weight[block], i);
    let low = (words & vec4(0x0f0f0f0fu)) | ((fifths << vec4(4u)) & vec4(0x10101010u));
    let high = ((words >> vec4(4u)) & vec4(0x0f0f0f0fu)) | ((fifths << vec4(3u)) & vec4(0x10101010u));
    return weight_piece(run_of(low, s.x, s.z, 5u), run_of(high, s.y, s.w, 5u));
}
