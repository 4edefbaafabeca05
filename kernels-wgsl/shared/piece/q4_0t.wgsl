// Pieces of one block: its low nibbles, its high nibbles.
#import weight/q4_0t
#import piece/pair

fn weight_runs(piece: u32) -> vec2<u32> {
    return vec2(piece * 2u, piece * 2u + 1u);
}

fn weight_raw(row: u32, piece: u32) -> vec4<u32> {
    let block = row * (K / 32u) + piece;
    return weight[block / 8u * 9u + block % 8u];
}

fn weight_opened(row: u32, piece: u32, words: vec4<u32>) -> weight_piece {
    let scale = weight_scale(row * (K / 32u) + piece);
    return weight_piece(
        run_of(words, scale, 8.0 * scale, 4u),
        run_of(words >> vec4(4u), scale, 8.0 * scale, 4u),
    );
}
