// Pieces of eight floats, one load each.
#import piece/take

const weight_span: u32 = 8u;
alias weight_piece = mat2x4<f32>;
alias weight_columns = mat2x4<f32>;

fn weight_raw(row: u32, piece: u32) -> vec4<u32> {
    return weight[row * (K / 8u) + piece];
}

fn weight_meet(first: u32, piece: u32) -> weight_columns {
    let at = first * 4u + piece * 2u;
    return mat2x4<f32>(x_quad(at), x_quad(at + 1u));
}

fn weight_dot(w: weight_piece, x: weight_columns) -> f32 {
    return dot(w[0], x[0]) + dot(w[1], x[1]);
}
