// A norm, a token shift, six lerps and the products of `project` in one: the rows of the seven matrices are dealt to UNITS
// workgroups, each of which norms the token's row for itself and mixes what its rows meet, matrix after matrix. The last
// one, which always has rows, stores the normed row, and zeros where no adapter fills the fourth plane. Needs `const
// UNITS`, what its imports need, `keep_columns` and `meet_columns` for the columns that w_r, w_k and w_v meet (the adapters
// meet theirs as they are), and of the matrices `WORTH`, `FIRST_WORTH`, `ahead_of` and `deal`.
#import normed_rows
// The matrices in the order in which their rows are dealt: w1, a1, v1, g1, w_r, w_k, w_v.
const MATRICES: u32 = 7u;
const ADAPTERS: u32 = 4u;

@group(0) @binding(15) var<storage, read_write> y: array<f32>;

fn rows_of(matrix: u32) -> u32 {
    if matrix < ADAPTERS {
        return params.ranks[matrix];
    }
    return params.m;
}

// The first row that workgroup `part` gets, of all rows in order. Each matrix is dealt to workgroups of its own where it
// fills half of one: whoever has rows of two mixes, rounds and loads twice, and all others wait.
fn dealt(part: u32) -> u32 {
    if part == 0u {
        return 0u;
    }
    let others = params.ranks.y + params.ranks.z + params.ranks.w;
    let all = params.ranks.x * FIRST_WORTH + others * WORTH + 3u * params.m;
    var before = 0u;
    var worth = 0u;
    var first = 0u;
    for (var matrix = 0u; matrix < MATRICES; matrix++) {
        let rows = rows_of(matrix);
        worth += rows * select(select(1u, WORTH, matrix < ADAPTERS), FIRST_WORTH, matrix == 0u);
        let past = (worth * UNITS + all / 2u) / all;
        if part < past {
            return before + (part - first) * rows / (past - first);
        }
        before += rows;
        first = past;
    }
    return before;
}

// The rows that a workgroup gets, from `begin` to `end`; the first matrix that it has rows of, and how many come before that.
struct Share {
    known: u32,     // its part, from 1 on
    begin: u32,
    end: u32,
    matrix: u32,
    before: u32,
}

// In a merged step it is the same in every layer.
var<private> share: Share;

fn share_of(part: u32) -> Share {
    if share.known != part + 1u {
        let begin = dealt(part);
        var matrix = 0u;
        var before = 0u;
        while matrix + 1u < MATRICES && before + rows_of(matrix) <= begin {
            before += rows_of(matrix);
            matrix++;
        }
        share = Share(part + 1u, begin, dealt(part + 1u), matrix, before);
    }
    // Compilers see that a whole subgroup goes the same way.
    return Share(
        share.known,
        subgroupBroadcastFirst(share.begin),
        subgroupBroadcastFirst(share.end),
        subgroupBroadcastFirst(share.matrix),
        subgroupBroadcastFirst(share.before),
    );
}

// The plane of mixed columns that a matrix meets.
fn plane_of(matrix: u32) -> u32 {
    var planes = array(1u, 4u, 3u, 5u, 0u, 2u, 3u);
    return planes[matrix];
}

fn norm_project(unit: u32, place: Place) {
    let lane = place.lane;
    let token = unit / UNITS;
    let part = unit % UNITS;
    let is_there = token < params.rows;
    let own = share_of(part);
    let begin = own.begin;
    let end = select(begin, own.end, is_there);
    var matrix = own.matrix;
    var before = own.before;
    var first = begin - before;
    var past = min(end - before, rows_of(matrix));
    var rows: Rows;
    var is_normed = false;
    while first < past {
        let ahead = ahead_of(matrix, first, past, place);
        let mixes = mixes_of(plane_of(matrix), lane);
        if is_normed {
            workgroupBarrier();
        } else {
            let around = around(token, lane);
            let ready = others_done(lane);
            rows = normed_rows(place, token + ready, around);
            is_normed = true;
        }
        for (var i = 0u; i < OWN; i++) {        // unroll
            let mixed = rows.own[i] + rows.step[i] * mixes[i];
            let is_there = lane + i * WG < QUADS;
            if matrix >= ADAPTERS {
                keep_columns(lane + i * WG, is_there, mixed);
            } else if is_there {
                keep_quad(lane + i * WG, mixed);
            }
        }
        if matrix >= ADAPTERS {
            meet_columns(lane);
        } else {
            workgroupBarrier();
        }
        // The adapters' rows lie one after another in the fourth plane.
        let is_adapter = matrix < ADAPTERS;
        let plane = select(matrix - ADAPTERS, 3u, is_adapter);
        let at = (plane * params.rows + token) * params.m + select(0u, before, is_adapter);
        deal(matrix, first, past, at, place, ahead);

        // The next matrix with rows for this workgroup, if there is one.
        first = 0u;
        past = 0u;
        while matrix + 1u < MATRICES && first == past {
            before += rows_of(matrix);
            matrix++;
            past = min(max(end, before) - before, rows_of(matrix));
        }
    }
    if !is_normed {
        others_done(lane);
    } else if part == UNITS - 1u {
        store_row(rows, lane, (4u * params.rows + token) * params.m);
        let ranks = params.ranks;
        for (var c = ranks.x + ranks.y + ranks.z + ranks.w + lane; c < params.m; c += WG) {
            y[(3u * params.rows + token) * params.m + c] = 0.0;
        }
    }
}
