// Pieces of a row of an adapter, as many as `const PIECES`, as they are loaded: from piece `first` on, `step` apart, as many as
// invocations of a subgroup, which share a row. Imported for each adapter. Needs `alias Ahead`, words for at least as many.

// Past the last piece the last one is read again; it counts for nothing.
fn weight_round(row: u32, first: u32, step: u32) -> Ahead {
    var words: Ahead;
    for (var u = 0u; u < PIECES; u++) {         // unroll
        let piece = min(first + u * step, K / weight_span - 1u);
        words[u / LOADS / ROWS][u / LOADS % ROWS][u % LOADS] = weight_raw(row, piece);
    }
    return words;
}
