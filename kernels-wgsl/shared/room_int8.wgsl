// As columns_int8.wgsl, in `room` and rounded by who has the columns: first the words of every run, then as many times its
// scale and sum. Needs `const K`.
#import room
#import run_integers

struct Columns {
    words: vec4<u32>,
    scale: f32,
    sum: f32,           // of the rounded x
}

// Rounds four columns, if there are any, with the neighbours that have the rest of the run. All invocations of a subgroup
// come here together; quad `i` is that of an invocation whose number is as far from a multiple of four.
fn keep_columns(i: u32, is_there: bool, quad: vec4<f32>) {
    let scale = largest_of_run(quad) / 127.0;
    let words = words_of_run(pack4xI8(nearest(quad * inverse(scale))));
    if is_there && i % 4u == 0u {
        let sum = scale * f32(dot_words(words, vec4(0x01010101u)));
        room[i / 4u] = words;
        room[K / 16u + i / 4u] = bitcast<vec4<u32>>(vec4(scale, sum, 0.0, 0.0));
    }
}

// After this all columns are there for all.
fn meet_columns(lane: u32) {
    workgroupBarrier();
}

fn columns_at(run: u32) -> Columns {
    let scale_sum = bitcast<vec4<f32>>(room[K / 16u + run]);
    return Columns(room[run], scale_sum.x, scale_sum.y);
}

fn dot_run(w: Run, x: Columns) -> f32 {
    return w.scale * x.scale * f32(dot_words(w.words, x.words)) - w.offset * x.sum;
}
