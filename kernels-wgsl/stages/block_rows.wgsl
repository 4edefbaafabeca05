// The products of consecutive rows of a matrix of K-quants with the rounded columns of one token, by a whole workgroup: LANES
// neighbours share ROWS rows, each takes half a block of them at a time, and UNROLL of those are on their way. Imported for a
// matrix, or for one of several of one format: `#import block_rows as w` makes `w_ahead` and `w_deal`. Needs `const K, WG,
// LANES, ROWS, UNROLL`, columns_blocks.wgsl, y, and `round_of(row, end, half)`, which is `w_round` of the matrix that is meant.
#import epilogue
#import reduce_lanes

const SUBS: u32 = weight_subs;
const LOADS: u32 = weight_loads;
const ROUNDS: u32 = (HALVES + LANES * UNROLL - 1u) / (LANES * UNROLL);
// What is loaded of half a block, and what is on its way: UNROLL half blocks of ROWS rows.
alias HalfWords = array<vec4<u32>, LOADS>;
alias Ahead = array<array<HalfWords, ROWS>, UNROLL>;

// What an invocation reads first of rows `begin` to `end`: it waits for nothing.
fn weight_ahead(begin: u32, end: u32, lane: u32) -> Ahead {
    var words: Ahead;
    for (var u = 0u; u < UNROLL; u++) {         // unroll
        words[u] = round_of(begin + lane / LANES * ROWS, end, lane % LANES + u * LANES);
    }
    return words;
}

// ROWS products of half a block.
fn weight_products(words: array<HalfWords, ROWS>, half: u32) -> array<f32, ROWS> {
    var halves: array<Half, ROWS>;
    for (var i = 0u; i < ROWS; i++) {           // unroll
        halves[i] = weight_half(words[i], half);
    }
    var highs: array<i32, ROWS>;
    var lows: array<i32, ROWS>;
    for (var sub = 0u; sub < SUBS; sub++) {     // unroll
        var high: array<i32, ROWS>;
        var low: array<i32, ROWS>;
        for (var r = 0u; r < RUNS_OF_SUB; r++) {    // unroll
            let run = sub * RUNS_OF_SUB + r;
            let first = room[HELD + 2u * run * HALVES + half];
            let second = room[HELD + (2u * run + 1u) * HALVES + half];
            let x_high = vec4(first.xz, second.xz);
            let x_low = vec4(first.yw, second.yw);
            for (var i = 0u; i < ROWS; i++) {   // unroll
                let codes = weight_run_codes(words[i], half, run);
                high[i] += dot_words(codes, x_high);
                low[i] += dot_words(codes, x_low);
            }
        }
        for (var i = 0u; i < ROWS; i++) {       // unroll
            let scale = scale_of(halves[i], sub);
            highs[i] += scale * high[i];
            lows[i] += scale * low[i];
        }
    }
    var mins: array<i32, ROWS>;
    var x_scale: f32;
    for (var four = 0u; four < SUBS / 4u; four++) {     // unroll
        let digits = room[HELD + (16u + four) * HALVES + half];
        x_scale = bitcast<f32>(digits.w);
        for (var i = 0u; i < ROWS; i++) {       // unroll
            mins[i] += dot_sums(halves[i].mins[four], digits);
        }
    }
    var products: array<f32, ROWS>;
    for (var i = 0u; i < ROWS; i++) {           // unroll
        let codes = 128.0 * f32(highs[i]) + f32(lows[i]);
        products[i] = x_scale * (halves[i].d * codes - halves[i].offset * f32(mins[i]));
    }
    return products;
}

// Stores the products of rows `begin` to `end` at y[at + row]. All invocations go round as often: what shuffles where
// compilers see no uniform control flow is many times as slow.
fn weight_deal(begin: u32, end: u32, at: u32, kind: u32, lane: u32, ahead: Ahead) {
    let own = lane % LANES;
    var words = ahead;
    for (var block = begin; block < end; block += WG / LANES * ROWS) {
        let row = block + lane / LANES * ROWS;
        var before: array<f32, ROWS>;
        for (var i = 0u; i < ROWS; i++) {       // unroll
            before[i] = residual(at + min(row + i, end - 1u));
        }
        var sums: array<f32, ROWS>;
        for (var round = 0u; round < ROUNDS; round++) {
            // The same rows' next round, or the first one of the next rows.
            let goes_on = round + 1u < ROUNDS;
            let next_row = select(row + WG / LANES * ROWS, row, goes_on);
            let next = select(own, own + (round + 1u) * UNROLL * LANES, goes_on);
            for (var u = 0u; u < UNROLL; u++) { // unroll
                // On its way while the other is computed with.
                let coming = round_of(next_row, end, next + u * LANES);
                let half = (round * UNROLL + u) * LANES + own;
                if half < HALVES && row < end {
                    let products = weight_products(words[u], half);
                    for (var i = 0u; i < ROWS; i++) {   // unroll
                        sums[i] += products[i];
                    }
                }
                words[u] = coming;
            }
        }
        for (var i = 0u; i < ROWS; i++) {       // unroll
            let sum = lanes_sum(sums[i]);
            if own == 0u && row + i < end {
                y[at + row + i] = before[i] + activate(kind, sum);
            }
        }
    }
}
