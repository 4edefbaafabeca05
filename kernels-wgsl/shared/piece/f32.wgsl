// Pieces of four floats, one load each.
@group(0) @binding(0) var<storage, read> weight: array<vec4<f32>>;

const weight_span: u32 = 4u;
alias weight_piece = vec4<f32>;
alias weight_columns = vec4<f32>;

fn weight_take(row: u32, piece: u32) -> weight_piece {
    return weight[row * (K / 4u) + piece];
}

fn weight_meet(first: u32, piece: u32) -> weight_columns {
    return x_quad(first * 4u + piece);
}

fn weight_dot(w: weight_piece, x: weight_columns) -> f32 {
    return dot(w, x);
}
