// Pieces of two runs, which the low and the high bits of one load begin. Needs the format's `weight_runs`: where in a
// row the runs of a piece are, in runs.
#import piece/take

const weight_span: u32 = 32u;

struct weight_piece {
    low: Run,
    high: Run,
}

struct weight_columns {
    low: Columns,
    high: Columns,
}

fn weight_meet(first: u32, piece: u32) -> weight_columns {
    let runs = weight_runs(piece) + vec2(first);
    return weight_columns(columns_at(runs.x), columns_at(runs.y));
}

fn weight_dot(w: weight_piece, x: weight_columns) -> f32 {
    return dot_run(w.low, x.low) + dot_run(w.high, x.high);
}
