// A piece in one go. Who wants many on their way loads their words first and opens them when they are needed.
fn weight_take(row: u32, piece: u32) -> weight_piece {
    return weight_opened(row, piece, weight_raw(row, piece));
}
