#import weight/q4_k
#import piece/k_scales

fn weight_take(row: u32, piece: u32) -> weight_piece {
    let block = (row * (K / 256u) + piece / 8u) * 9u;
    let words = weight[block + 1u + piece % 8u];
    let s = weight_scales_mins(weight[block], piece % 8u);
    return weight_piece(
        run_of(words, s.x, s.z, 4u),
        run_of(words >> vec4(4u), s.y, s.w, 4u),
    );
}
