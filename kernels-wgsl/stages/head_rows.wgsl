// One invocation's share of the products of a row of an adapter with its hidden values: of SPLIT, it is number `part`, and
// takes every SPLIT-th piece, all of them at once. Imported for an adapter that is read in pieces: `#import head_rows as w2`
// makes `w2_row`, which is to be called before the hidden values are there, and `w2_share`. Needs `const SPLIT`,
// `const w2_rank` and `x_quad`.
const weight_pieces: u32 = weight_rank / weight_span;
const weight_last: u32 = max(weight_pieces, 1u) - 1u;
const weight_loads: u32 = weight_last / SPLIT + 1u;

// Past the last piece the last one is read again; it counts for nothing.
fn weight_row(row: u32, part: u32) -> array<vec4<u32>, weight_loads> {
    var words: array<vec4<u32>, weight_loads>;
    for (var i = 0u; i < weight_loads; i++) {     // unroll
        words[i] = weight_raw(0u, row * weight_pieces + min(i * SPLIT + part, weight_last));
    }
    return words;
}

// The hidden values begin at this column.
fn weight_share(row: u32, words: array<vec4<u32>, weight_loads>, column: u32, part: u32) -> f32 {
    var sum = 0.0;
    for (var i = 0u; i < weight_loads; i++) {     // unroll
        let piece = i * SPLIT + part;
        let opened = weight_opened(0u, row * weight_pieces + min(piece, weight_last), words[i]);
        let product = weight_dot(opened, weight_meet(0u, column / weight_span + min(piece, weight_last)));
        sum += select(0.0, product, piece < weight_pieces);
    }
    return sum;
}
