// The products of one token with a matrix whose rows are dealt evenly to UNITS workgroups. Each holds all of x once. A
// team of SPLIT times LANES invocations takes ROWS rows at a time, UNROLL pieces of each at once; where a team is more than
// one group of LANES, their sums meet in workgroup memory. Needs `const K, WG, UNITS, LANES, SPLIT, ROWS, UNROLL` and
// columns in workgroup memory.
#import params
#import epilogue
#import reduce_lanes
#import others
#import piece/f16 as w binding 2

const RUNS: u32 = K / 16u;
const TEAM: u32 = LANES * SPLIT;
const TEAMS: u32 = WG / TEAM;
const PIECES: u32 = K / w_span;
const ROUNDS: u32 = (PIECES + TEAM * UNROLL - 1u) / (TEAM * UNROLL);
// A workgroup that splits rows has few of them.
const PARTIALS: u32 = min(SPLIT - 1u, 1u) * 511u + 1u;

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

var<workgroup> partials: array<f32, PARTIALS>;

// Row `i` of a group. Past the last row the last one is read again; its sum is not stored.
fn row_of(group: u32, i: u32) -> u32 {
    return min(group * ROWS + i, params.window - 1u);
}

// The words of piece `u` of a round for member `own` of a team. Past the last piece the last one is read again, and counts
// for nothing.
fn words_of(group: u32, round: u32, u: u32, own: u32) -> array<vec4<u32>, ROWS> {
    let piece = min((round * UNROLL + u) * TEAM + own, PIECES - 1u);
    var words: array<vec4<u32>, ROWS>;
    for (var i = 0u; i < ROWS; i++) {           // unroll
        words[i] = w_raw(row_of(group, i), piece);
    }
    return words;
}

// What is in the place of a row's sum.
fn before(token: u32, row: u32) -> f32 {
    return residual(token * params.m + params.first + min(row, params.window - 1u));
}

fn dealt(unit: u32, lane: u32) {
    let token = unit / UNITS;
    let groups = (params.window + ROWS - 1u) / ROWS;
    let begin = unit % UNITS * groups / UNITS;
    let end = (unit % UNITS + 1u) * groups / UNITS;
    let own = lane % TEAM;
    let place = own % LANES;
    // Weights do not depend on x: they are on their way while it is held.
    let first = select(lane / TEAM, end, lane >= TEAMS * TEAM);
    var words: array<array<vec4<u32>, ROWS>, UNROLL>;
    if begin + first < end {
        for (var u = 0u; u < UNROLL; u++) {     // unroll
            words[u] = words_of(begin + first, 0u, u, own);
        }
    }
    let ready = others_done(lane);
    if token >= params.rows || begin == end {
        return;
    }
    var residue = before(token + ready, select(begin * ROWS + lane, (begin + first) * ROWS + place, SPLIT == 1u));
    hold_runs(lane, (token + ready) * RUNS, 0u, RUNS);
    workgroupBarrier();

    // All go round as often: what shuffles where compilers see no uniform control flow is many times as slow.
    for (var block = begin; block < end; block += TEAMS) {
        let group = block + first;
        var sums: array<f32, ROWS>;
        for (var round = 0u; round < ROUNDS; round++) {
            let is_last = round + 1u == ROUNDS;
            let next_group = select(group, group + TEAMS, is_last);
            let next_round = select(round + 1u, 0u, is_last);
            for (var u = 0u; u < UNROLL; u++) {         // unroll
                let piece = (round * UNROLL + u) * TEAM + own;
                let last = min(piece, PIECES - 1u);
                let columns = w_meet(0u, last);
                for (var i = 0u; i < ROWS; i++) {       // unroll
                    let opened = w_opened(row_of(group, i), last, words[u][i]);
                    sums[i] += select(0.0, w_dot(opened, columns), piece < PIECES);
                }
                // Sent for as soon as there is room: what is in the other words is computed with meanwhile.
                if next_group < end {
                    words[u] = words_of(next_group, next_round, u, own);
                }
            }
        }
        var sum = 0.0;
        for (var i = 0u; i < ROWS; i++) {               // unroll
            let all = lanes_sum(sums[i]);
            sum = select(sum, all, place == i);
        }
        let row = group * ROWS + place;
        if place < ROWS && group < end {
            if SPLIT > 1u {
                partials[(row - begin * ROWS) * SPLIT + own / LANES] = sum;
            } else if row < params.window {
                finish(token * params.m + params.first + row, residue, sum);
                residue = before(token + ready, row + TEAMS * ROWS);
            }
        }
    }

    if SPLIT > 1u {
        workgroupBarrier();
        let row = begin * ROWS + lane;
        if row < min(end * ROWS, params.window) {
            var sum = 0.0;
            for (var i = 0u; i < SPLIT; i++) {          // unroll
                sum += partials[lane * SPLIT + i];
            }
            finish(token * params.m + params.first + row, residue, sum);
        }
    }
}
