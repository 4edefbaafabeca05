// A norm, a token shift, a lerp and a product in one: the rows of w are dealt to UNITS workgroups, each of which norms the
// token's row for itself. The last one, which always has rows, stores the normed row. Needs `const UNITS`,
// what its imports need, `keep_columns`, `meet_columns`, and of the matrix `w_ahead` and `w_deal`.
#import normed_rows
#import epilogue

@group(0) @binding(9) var<storage, read_write> y: array<f32>;

fn norm_matmul(unit: u32, place: Place) {
    let lane = place.lane;
    let token = unit / UNITS;
    let part = unit % UNITS;
    let begin = part * params.window / UNITS;
    let end = (part + 1u) * params.window / UNITS;
    let ahead = w_ahead(begin, end, lane);
    let mixes = mixes_of(0u, lane);
    let around = around(min(token, params.rows - 1u), lane);
    let ready = others_done(lane);
    if token >= params.rows || begin == end {
        return;
    }
    let rows = normed_rows(place, token + ready, around);
    for (var i = 0u; i < OWN; i++) {        // unroll
        keep_columns(lane + i * WG, lane + i * WG < QUADS, rows.own[i] + rows.step[i] * mixes[i]);
    }
    meet_columns(lane);
    w_deal(begin, end, token * params.m + params.first, ACTIVATION, lane, ahead);
    if part == UNITS - 1u {
        store_row(rows, lane, (params.rows + token) * params.m);
    }
}
