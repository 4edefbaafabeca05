// Pieces of four floats.
#import weight/f32

const weight_span: u32 = 4u;
alias weight_piece = vec4<f32>;
alias weight_columns = vec4<f32>;

fn weight_take(row: u32, piece: u32) -> weight_piece {
    let at = row * K + piece * 4u;
    return vec4(weight[at], weight[at + 1u], weight[at + 2u], weight[at + 3u]);
}

fn weight_meet(first: u32, piece: u32) -> weight_columns {
    return x_quad(first * 4u + piece);
}

fn weight_dot(w: weight_piece, x: weight_columns) -> f32 {
    return dot(w, x);
}
