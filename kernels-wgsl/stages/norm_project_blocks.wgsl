// The matrices of norm_project as its products take them that multiply blocks of K-quants: w_r, w_k and w_v of one format in
// one loop, the adapters in another, with columns in f32; but for w1, which files keep in F32, they are of one format too.
// Which is meant is chosen where it is loaded: code that runs once a layer costs as much to fetch as to execute.
#import block/q4_k as w_r binding 8
#import block/q4_k as w_k binding 9
#import block/q4_k as w_v binding 10
#import piece/f16 as w1 binding 11
#import piece/f16 as a1 binding 12
#import piece/f16 as v1 binding 13
#import piece/f16 as g1 binding 14
#import block_loads as w_r
#import block_loads as w_k
#import block_loads as w_v
#import block_rows as w_r
#import adapter_loads as w1
#import adapter_loads as a1
#import adapter_loads as v1
#import adapter_loads as g1

// Pieces of an adapter that an invocation has on its way, in the registers that are there for the matrices.
const PIECES: u32 = min(ROWS * UNROLL * LOADS, 10u);
// How many rows of w_r are read in the time of one of an adapter; of w1, which files keep in F32, they have more pieces.
const WORTH: u32 = 20u / LOADS;
const FIRST_WORTH: u32 = WORTH * max(g1_span / w1_span, 1u);

// In a merged step one matrix stands for all that lie in one buffer with it: `turn` says for which.
const TOGETHER: bool = false;           // merged: w_r w_k w_v by turn
const ADAPTERS_TOGETHER: bool = false;  // merged: g1 a1 v1 by turn
var<private> turn: u32;

// The matrix whose rows are loaded.
var<private> loaded: u32;

fn round_of(row: u32, end: u32, half: u32) -> array<HalfWords, ROWS> {
    if TOGETHER {
        return w_r_round(row, end, half);
    }
    switch loaded {
        case 4u: { return w_r_round(row, end, half); }
        case 5u: { return w_k_round(row, end, half); }
        default: { return w_v_round(row, end, half); }
    }
}

fn adapter_round(row: u32, end: u32, first: u32, step: u32) -> Ahead {
    if row >= end {
        return Ahead();
    }
    if ADAPTERS_TOGETHER && loaded > 0u {
        return g1_round(row, first, step);
    }
    switch loaded {
        case 0u: { return w1_round(row, first, step); }
        case 1u: { return a1_round(row, first, step); }
        case 2u: { return v1_round(row, first, step); }
        default: { return g1_round(row, first, step); }
    }
}

fn adapter_product(row: u32, piece: u32, load: vec4<u32>) -> f32 {
    if loaded == 0u {
        return w1_dot(w1_opened(row, piece, load), w1_meet(0u, piece));
    }
    return g1_dot(g1_opened(row, piece, load), g1_meet(0u, piece));
}

fn ahead_of(matrix: u32, begin: u32, end: u32, place: Place) -> Ahead {
    loaded = matrix;
    turn = matrix % ADAPTERS % 3u;
    if matrix >= ADAPTERS {
        return w_r_ahead(begin, end, place.lane);
    }
    return adapter_round(begin + place.subgroup, end, place.subgroup_lane, WG / place.subgroups);
}

// The products of rows of an adapter, each by a subgroup; all go round as often.
fn deal_adapter(begin: u32, end: u32, at: u32, kind: u32, place: Place, ahead: Ahead) {
    let pieces = select(K / g1_span, K / w1_span, loaded == 0u);
    let step = WG / place.subgroups;
    let own = place.subgroup_lane;
    var words = ahead;
    for (var block = begin; block < end; block += place.subgroups) {
        let row = block + place.subgroup;
        var sum = 0.0;
        for (var round = 0u; round < pieces; round += PIECES * step) {
            for (var u = 0u; u < PIECES; u++) {     // unroll
                let piece = round + u * step + own;
                let load = words[u / LOADS / ROWS][u / LOADS % ROWS][u % LOADS];
                sum += select(0.0, adapter_product(row, min(piece, pieces - 1u), load), piece < pieces);
            }
            // The same row's next round, or the first one of the next row.
            let goes_on = round + PIECES * step < pieces;
            let next = own + select(0u, round + PIECES * step, goes_on);
            words = adapter_round(select(row + place.subgroups, row, goes_on), end, next, step);
        }
        let all = subgroupAdd(sum);
        if own == 0u && row < end {
            y[at + row] = activate(kind, all);
        }
    }
}

fn deal(matrix: u32, begin: u32, end: u32, at: u32, place: Place, ahead: Ahead) {
    if matrix >= ADAPTERS {
        w_r_deal(begin, end, at, NONE, place.lane, ahead);
    } else {
        var kinds = array(TANH, NONE, NONE, SIGMOID);
        deal_adapter(begin, end, at, kinds[matrix], place, ahead);
    }
}
