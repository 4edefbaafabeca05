// Pieces of 32 consecutive weights, for formats whose blocks lie across loads: none of them is loaded ahead.
#import piece/take

const weight_span: u32 = 32u;
alias weight_piece = array<vec4<f32>, 8>;
alias weight_columns = array<vec4<f32>, 8>;

fn weight_raw(row: u32, piece: u32) -> vec4<u32> {
    return vec4<u32>();
}

fn weight_opened(row: u32, piece: u32, words: vec4<u32>) -> weight_piece {
    return weight_load32(row * (K / 32u) + piece);
}

fn weight_meet(first: u32, piece: u32) -> weight_columns {
    let at = first * 4u + piece * 8u;
    return array<vec4<f32>, 8>(
        x_quad(at), x_quad(at + 1u), x_quad(at + 2u), x_quad(at + 3u),
        x_quad(at + 4u), x_quad(at + 5u), x_quad(at + 6u), x_quad(at + 7u),
    );
}

fn weight_dot(w: weight_piece, x: weight_columns) -> f32 {
    return dot(w[0], x[0]) + dot(w[1], x[1]) + dot(w[2], x[2]) + dot(w[3], x[3])
        + dot(w[4], x[4]) + dot(w[5], x[5]) + dot(w[6], x[6]) + dot(w[7], x[7]);
}
