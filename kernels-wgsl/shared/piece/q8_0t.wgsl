// Pieces of one run: half a block.
#import weight/q8_0t
#import piece/take

const weight_span: u32 = 16u;
alias weight_piece = Run;
alias weight_columns = Columns;

fn weight_raw(row: u32, piece: u32) -> vec4<u32> {
    let run = row * (K / 16u) + piece;
    return weight[run / 16u * 17u + run % 16u];
}

fn weight_opened(row: u32, piece: u32, words: vec4<u32>) -> weight_piece {
    return run_of(words, weight_scale((row * (K / 16u) + piece) / 2u), 0.0, 8u);
}

fn weight_meet(first: u32, piece: u32) -> weight_columns {
    return columns_at(first + piece);
}

fn weight_dot(w: weight_piece, x: weight_columns) -> f32 {
    return dot_run(w, x);
}
