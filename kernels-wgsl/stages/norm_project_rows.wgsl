// The matrices of norm_project as its products take them that read pieces: whatever their formats, each by itself.
#import piece/f16 as w_r binding 8
#import piece/f16 as w_k binding 9
#import piece/f16 as w_v binding 10
#import piece/f32 as w1 binding 11
#import piece/f16 as a1 binding 12
#import piece/f16 as v1 binding 13
#import piece/f16 as g1 binding 14
#import dealt_rows as w_r
#import dealt_rows as w_k
#import dealt_rows as w_v
#import dealt_rows as w1
#import dealt_rows as a1
#import dealt_rows as v1
#import dealt_rows as g1

const ROOM: u32 = K / 4u;
// How many rows of w_r are read in the time of one of an adapter, as many as it has pieces for each of theirs; of w1, which
// files keep in F32, they have more.
const WORTH: u32 = max(w_r_span / g1_span, 1u);
const FIRST_WORTH: u32 = max(w_r_span / w1_span, 1u);

// In a merged step one matrix stands for all that lie in one buffer with it: `turn` says for which.
const TOGETHER: bool = false;           // merged: w_r w_k w_v by turn
const ADAPTERS_TOGETHER: bool = false;  // merged: g1 a1 v1 by turn
var<private> turn: u32;

// The matrix that stands for this one.
fn standing_for(matrix: u32) -> u32 {
    turn = matrix % ADAPTERS % 3u;
    if TOGETHER && matrix >= ADAPTERS {
        return ADAPTERS;
    }
    return select(matrix, 3u, ADAPTERS_TOGETHER && matrix > 0u && matrix < ADAPTERS);
}

fn ahead_of(matrix: u32, begin: u32, end: u32, place: Place) -> array<array<vec4<u32>, ROWS>, UNROLL> {
    let lane = place.lane;
    switch standing_for(matrix) {
        case 0u: { return w1_ahead(begin, end, lane); }
        case 1u: { return a1_ahead(begin, end, lane); }
        case 2u: { return v1_ahead(begin, end, lane); }
        case 3u: { return g1_ahead(begin, end, lane); }
        case 4u: { return w_r_ahead(begin, end, lane); }
        case 5u: { return w_k_ahead(begin, end, lane); }
        default: { return w_v_ahead(begin, end, lane); }
    }
}

fn deal(matrix: u32, begin: u32, end: u32, at: u32, place: Place, ahead: array<array<vec4<u32>, ROWS>, UNROLL>) {
    let lane = place.lane;
    switch standing_for(matrix) {
        case 0u: { w1_deal(begin, end, at, TANH, lane, ahead); }
        case 1u: { a1_deal(begin, end, at, NONE, lane, ahead); }
        case 2u: { v1_deal(begin, end, at, NONE, lane, ahead); }
        case 3u: { g1_deal(begin, end, at, select(NONE, SIGMOID, matrix == 3u), lane, ahead); }
        case 4u: { w_r_deal(begin, end, at, NONE, lane, ahead); }
        case 5u: { w_k_deal(begin, end, at, NONE, lane, ahead); }
        default: { w_v_deal(begin, end, at, NONE, lane, ahead); }
    }
}
