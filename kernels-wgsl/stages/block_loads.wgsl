// Half a block of each of ROWS rows of a matrix of K-quants, as it is loaded. Imported for each matrix.

// Past the last row the last one is read again; it counts for nothing.
fn weight_round(row: u32, end: u32, half: u32) -> array<HalfWords, ROWS> {
    var words: array<HalfWords, ROWS>;
    if row < end && half < HALVES {
        for (var i = 0u; i < ROWS; i++) {       // unroll
            words[i] = weight_raw(min(row + i, end - 1u), half);
        }
    }
    return words;
}
