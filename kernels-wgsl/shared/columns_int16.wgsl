// As columns_int8.wgsl with two int8 words for four columns, fifteen bits each: code = 128 * high + low, high in -127..127
// and low in -64..63, so that a run's scale is its largest |x| / 16256.
#import run_integers

struct Columns {
    high: vec4<u32>,
    low: vec4<u32>,
    scale: f32,
    sum: f32,           // of the rounded x
}

const ROOM: u32 = 2u * RUNS + RUNS / 2u;
// High and low words of every run, then scales and sums, those of two runs together.
var<workgroup> room: array<vec4<u32>, ROOM>;

// Holds `count` runs of x, an even number, from run `begin` on, in the places from `place` on, which is even. Four
// neighbours of a subgroup share a run; of eight, who have two, the first stores their scales.
fn hold_runs(lane: u32, begin: u32, place: u32, count: u32) {
    // All go round as often: what shuffles where compilers see no uniform control flow is many times as slow.
    for (var block = 0u; block < count * 4u; block += WG) {
        let i = block + lane;
        let is_there = i < count * 4u;
        let quad = x[begin * 4u + min(i, count * 4u - 1u)];
        let scale = largest_of_run(quad) / 16256.0;
        let codes = nearest(quad * inverse(scale));
        let highs = (codes + vec4(64)) >> vec4(7u);
        let high = words_of_run(pack4xI8(highs));
        let low = words_of_run(pack4xI8(codes - highs * 128));
        let scale_sum = vec2(scale, scale * f32(dot_codes(vec4(0x01010101u), high, low)));
        let other = subgroupShuffleXor(scale_sum, 4u);
        let at = place + i / 4u;
        if is_there && i % 4u == 0u {
            room[at] = high;
            room[RUNS + at] = low;
        }
        if is_there && i % 8u == 0u {
            room[2u * RUNS + at / 2u] = bitcast<vec4<u32>>(vec4(scale_sum, other));
        }
    }
}

// Below 2^26 for sixteen int8.
fn dot_codes(words: vec4<u32>, high: vec4<u32>, low: vec4<u32>) -> i32 {
    return 128 * dot_words(words, high) + dot_words(words, low);
}

// The rounded columns at a place.
fn columns_at(place: u32) -> Columns {
    let both = bitcast<vec4<f32>>(room[2u * RUNS + place / 2u]);
    let scale_sum = select(both.xy, both.zw, place % 2u == 1u);
    return Columns(room[place], room[RUNS + place], scale_sum.x, scale_sum.y);
}

fn dot_run(w: Run, x: Columns) -> f32 {
    return w.scale * x.scale * f32(dot_codes(w.words, x.high, x.low)) - w.offset * x.sum;
}
