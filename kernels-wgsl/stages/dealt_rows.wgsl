// The products of consecutive rows of a matrix with the columns of one token in `room`, by a whole workgroup: LANES
// neighbours share ROWS rows, UNROLL pieces of each on their way. Imported for a matrix that is read in pieces:
// `#import dealt_rows as w` makes `w_ahead` and `w_deal`. Needs `const K, WG, LANES, ROWS, UNROLL` and y.
#import activation
#import reduce_lanes

// The words that an invocation reads first of rows `begin` to `end`: they wait for nothing.
fn weight_ahead(begin: u32, end: u32, lane: u32) -> array<array<vec4<u32>, ROWS>, UNROLL> {
    var words: array<array<vec4<u32>, ROWS>, UNROLL>;
    for (var u = 0u; u < UNROLL; u++) {             // unroll
        words[u] = weight_pieces_of(begin + lane / LANES * ROWS, end, lane % LANES + u * LANES);
    }
    return words;
}

// Past the last row or piece the last one is read again; it counts for nothing.
fn weight_pieces_of(row: u32, end: u32, piece: u32) -> array<vec4<u32>, ROWS> {
    var words: array<vec4<u32>, ROWS>;
    if row < end {
        for (var i = 0u; i < ROWS; i++) {           // unroll
            words[i] = weight_raw(min(row + i, end - 1u), min(piece, K / weight_span - 1u));
        }
    }
    return words;
}

// Stores the products of rows `begin` to `end` at y[at + row].
fn weight_deal(begin: u32, end: u32, at: u32, kind: u32, lane: u32, ahead: array<array<vec4<u32>, ROWS>, UNROLL>) {
    let pieces = K / weight_span;
    let own = lane % LANES;
    var words = ahead;
    for (var block = begin; block < end; block += WG / LANES * ROWS) {
        let row = block + lane / LANES * ROWS;
        var sums: array<f32, ROWS>;
        for (var first = own; first < pieces + own; first += LANES * UNROLL) {
            // The same rows' next round, or the first one of the next rows.
            let goes_on = first + LANES * UNROLL < pieces + own;
            let next_row = select(row + WG / LANES * ROWS, row, goes_on);
            let next = select(own, first + LANES * UNROLL, goes_on);
            for (var u = 0u; u < UNROLL; u++) {     // unroll
                let piece = min(first + u * LANES, pieces - 1u);
                let counts = first + u * LANES < pieces;
                let columns = weight_meet(0u, piece);
                for (var i = 0u; i < ROWS; i++) {   // unroll
                    let opened = weight_opened(min(row + i, end - 1u), piece, words[u][i]);
                    sums[i] += select(0.0, weight_dot(opened, columns), counts);
                }
                // Sent for as soon as there is room: what is in the other words is computed with meanwhile.
                words[u] = weight_pieces_of(next_row, end, next + u * LANES);
            }
        }
        for (var i = 0u; i < ROWS; i++) {           // unroll
            let sum = lanes_sum(sums[i]);
            if own == 0u && row + i < end {
                y[at + row + i] = activate(kind, sum);
            }
        }
    }
}
