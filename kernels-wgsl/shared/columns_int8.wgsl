// Runs of sixteen weights against columns of x rounded to int8, in workgroup memory. The sixteen columns of a run share
// a scale: their largest |x| / 127. Needs `const WG` and `const RUNS`: how many runs there is room for, an even number.
#import run_integers

struct Columns {
    words: vec4<u32>,
    scale: f32,
    sum: f32,           // of the rounded x
}

const ROOM: u32 = RUNS + RUNS / 2u;
// The words of every run, then scales and sums, those of two runs together.
var<workgroup> room: array<vec4<u32>, ROOM>;

// Holds `count` runs of x, an even number, from run `begin` on, in the places from `place` on, which is even. Four
// neighbours of a subgroup share a run; of eight, who have two, the first stores their scales.
fn hold_runs(lane: u32, begin: u32, place: u32, count: u32) {
    // All go round as often: what shuffles where compilers see no uniform control flow is many times as slow.
    for (var block = 0u; block < count * 4u; block += WG) {
        let i = block + lane;
        let is_there = i < count * 4u;
        let quad = x[begin * 4u + min(i, count * 4u - 1u)];
        let scale = largest_of_run(quad) / 127.0;
        let words = words_of_run(pack4xI8(nearest(quad * inverse(scale))));
        let scale_sum = vec2(scale, scale * f32(dot_words(words, vec4(0x01010101u))));
        let other = subgroupShuffleXor(scale_sum, 4u);
        let at = place + i / 4u;
        if is_there && i % 4u == 0u {
            room[at] = words;
        }
        if is_there && i % 8u == 0u {
            room[RUNS + at / 2u] = bitcast<vec4<u32>>(vec4(scale_sum, other));
        }
    }
}

// The rounded columns at a place.
fn columns_at(place: u32) -> Columns {
    let both = bitcast<vec4<f32>>(room[RUNS + place / 2u]);
    let scale_sum = select(both.xy, both.zw, place % 2u == 1u);
    return Columns(room[place], scale_sum.x, scale_sum.y);
}

fn dot_run(w: Run, x: Columns) -> f32 {
    return w.scale * x.scale * f32(dot_words(w.words, x.words)) - w.offset * x.sum;
}
