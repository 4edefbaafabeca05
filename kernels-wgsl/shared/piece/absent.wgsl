// Stands in for an operand that this op does not have: nothing is bound, nothing may be read.
#import piece/take

const weight_span: u32 = 4u;
alias weight_piece = f32;
alias weight_columns = f32;

fn weight_raw(row: u32, piece: u32) -> vec4<u32> {
    return vec4<u32>();
}

fn weight_opened(row: u32, piece: u32, words: vec4<u32>) -> weight_piece {
    return 0.0;
}

fn weight_meet(first: u32, piece: u32) -> weight_columns {
    return 0.0;
}

fn weight_dot(w: weight_piece, x: weight_columns) -> f32 {
    return 0.0;
}
