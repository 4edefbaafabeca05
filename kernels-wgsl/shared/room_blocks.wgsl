// Columns of x in `room` as they are, and behind them as blocks of K-quants meet them.
#import room
#import columns_blocks

const HELD: u32 = K / 4u;
const ROOM: u32 = HELD + INTEGERS;

// Keeps four columns, if there are any. Whoever has all that is rounded together by itself rounds it at once.
fn keep_columns(i: u32, is_there: bool, quad: vec4<f32>) {
    if EACH == 1u {
        var quads: array<vec4<f32>, EACH>;
        quads[0] = quad;
        round_quads(i, is_there, quads);
    } else if is_there {
        keep_quad(i, quad);
    }
}

// After this all columns are there for all.
fn meet_columns(lane: u32) {
    workgroupBarrier();
    if EACH > 1u {
        round_columns(lane, 0u);
        workgroupBarrier();
    }
}
