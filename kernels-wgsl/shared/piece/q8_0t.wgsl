// Pieces of one run: half a block.
#import weight/q8_0t

const weight_span: u32 = 16u;
alias weight_piece = Run;
alias weight_columns = Columns;

fn weight_take(row: u32, piece: u32) -> weight_piece {
    let run = row * (K / 16u) + piece;
    return run_of(weight[run / 16u * 17u + run % 16u], weight_scale(run / 2u), 0.0, 8u);
}

fn weight_meet(first: u32, piece: u32) -> weight_columns {
    return columns_at(first + piece);
}

fn weight_dot(w: weight_piece, x: weight_columns) -> f32 {
    return dot_run(w, x);
}
