// Pieces of four floats, one load each.
#import piece/take

@group(0) @binding(0) var<storage, read> weight: array<vec4<f32>>;

const weight_span: u32 = 4u;
alias weight_piece = vec4<f32>;
alias weight_columns = vec4<f32>;

fn weight_raw(row: u32, piece: u32) -> vec4<u32> {
    return bitcast<vec4<u32>>(weight[row * (K / 4u) + piece]);
}

fn weight_opened(row: u32, piece: u32, words: vec4<u32>) -> weight_piece {
    return bitcast<vec4<f32>>(words);
}

fn weight_meet(first: u32, piece: u32) -> weight_columns {
    return x_quad(first * 4u + piece);
}

fn weight_dot(w: weight_piece, x: weight_columns) -> f32 {
    return dot(w, x);
}
