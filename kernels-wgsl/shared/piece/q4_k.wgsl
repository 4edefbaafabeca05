#import weight/q4_k
#import piece/k_scales

fn weight_raw(row: u32, piece: u32) -> vec4<u32> {
    return weight[(row * (K / 256u) + piece / 8u) * 9u + 1u + piece % 8u];
}

fn weight_opened(row: u32, piece: u32, words: vec4<u32>) -> weight_piece {
    let s = weight_scales_mins(weight[(row * (K / 256u) + piece / 8u) * 9u], piece % 8u);
    return weight_piece(
        run_of(words, s.x, s.z, 4u),
        run_of(words >> vec4(4u), s.y, s.w, 4u),
    );
}
