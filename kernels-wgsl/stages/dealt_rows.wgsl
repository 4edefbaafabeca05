// The products of consecutive rows of a matrix with the columns of one token in `room`, by a whole workgroup: LANES
// neighbours share ROWS rows, UNROLL pieces of each on their way at once. Imported for a matrix that is read in pieces:
// `#import dealt_rows as w` makes `w_ahead` and `w_deal`. Needs `const K, WG, LANES, ROWS, UNROLL`, AHEAD = ROWS * UNROLL,
// and y.
#import activation
#import reduce_lanes

// The words that an invocation reads first of rows `begin` to `end`: they wait for nothing.
fn weight_ahead(begin: u32, end: u32, lane: u32) -> array<vec4<u32>, AHEAD> {
    return weight_round(begin + lane / LANES * ROWS, end, lane % LANES);
}

// Past the last row or piece the last one is read again; it counts for nothing.
fn weight_round(row: u32, end: u32, first: u32) -> array<vec4<u32>, AHEAD> {
    var words: array<vec4<u32>, AHEAD>;
    if row < end {
        for (var u = 0u; u < UNROLL; u++) {         // unroll
            let piece = min(first + u * LANES, K / weight_span - 1u);
            for (var i = 0u; i < ROWS; i++) {       // unroll
                words[u * ROWS + i] = weight_raw(min(row + i, end - 1u), piece);
            }
        }
    }
    return words;
}

// Stores the products of rows `begin` to `end` at y[at + row].
fn weight_deal(begin: u32, end: u32, at: u32, kind: u32, lane: u32, ahead: array<vec4<u32>, AHEAD>) {
    let pieces = K / weight_span;
    let own = lane % LANES;
    var words = ahead;
    for (var block = begin; block < end; block += WG / LANES * ROWS) {
        let row = block + lane / LANES * ROWS;
        var sums: array<f32, ROWS>;
        for (var first = own; first < pieces + own; first += LANES * UNROLL) {
            for (var u = 0u; u < UNROLL; u++) {     // unroll
                let piece = min(first + u * LANES, pieces - 1u);
                let counts = first + u * LANES < pieces;
                let columns = weight_meet(0u, piece);
                for (var i = 0u; i < ROWS; i++) {   // unroll
                    let opened = weight_opened(min(row + i, end - 1u), piece, words[u * ROWS + i]);
                    sums[i] += select(0.0, weight_dot(opened, columns), counts);
                }
            }
            // The same rows' next round, or the first one of the next rows.
            let goes_on = first + LANES * UNROLL < pieces + own;
            let next_row = select(row + WG / LANES * ROWS, row, goes_on);
            words = weight_round(next_row, end, select(own, first + LANES * UNROLL, goes_on));
        }
        for (var i = 0u; i < ROWS; i++) {           // unroll
            let sum = lanes_sum(sums[i]);
            if own == 0u && row + i < end {
                y[at + row + i] = activate(kind, sum);
            }
        }
    }
}
