// Sampling, second stage: chooses a token, hands it to the next step and ends sequences. A workgroup per sequence.
#import unit
#import reduce_workgroup
#import sample/layout
#import sample/kept
#import sample/philox

const WG: u32 = 256u;   // tune: 64 128 256 512 1024

@group(0) @binding(1) var<storage, read> pieces: array<Piece>;
@group(0) @binding(2) var<storage, read> settings: array<Settings>;
@group(0) @binding(3) var<storage, read_write> scores: array<f32>;      // becomes the weights of the tokens kept
@group(0) @binding(4) var<storage, read_write> progress: array<Progress>;
@group(0) @binding(5) var<storage, read_write> tokens: array<u32>;
@group(0) @binding(6) var<storage, read_write> segments: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read> meeting: array<u32>;           // of the step before; see persistent/meeting.wgsl

var<workgroup> best_id: array<u32, WG>;
var<workgroup> broken: array<u32, WG>;
var<workgroup> first_lane: atomic<u32>;
var<workgroup> last_lane: atomic<u32>;
var<workgroup> top_key: atomic<u32>;
var<workgroup> top: u32;
var<workgroup> chosen: u32;

fn find_best(lane: u32, sequence: u32, per_sequence: u32) -> Best {
    var own = Best(LOWEST, NONE, 0.0, GOES_ON);
    for (var i = lane; i < per_sequence; i += WG) {
        let piece = pieces[sequence * per_sequence + i];
        if piece.best > own.score || (piece.best == own.score && piece.id < own.id) {
            own.score = piece.best;
            own.id = piece.id;
        }
        if own.broken == GOES_ON || piece.broken == NOT_A_NUMBER {
            own.broken = piece.broken;
        }
    }
    partials[lane] = own.score;
    best_id[lane] = own.id;
    broken[lane] = own.broken;
    workgroupBarrier();
    for (var half = WG / 2u; half > 0u; half /= 2u) {
        if lane < half {
            let other = lane + half;
            let alike = partials[other] == partials[lane];
            if partials[other] > partials[lane] || (alike && best_id[other] < best_id[lane]) {
                partials[lane] = partials[other];
                best_id[lane] = best_id[other];
            }
            if broken[lane] == GOES_ON || broken[other] == NOT_A_NUMBER {
                broken[lane] = broken[other];
            }
        }
        workgroupBarrier();
    }
    let best = workgroupUniformLoad(&partials[0]);
    var sum = 0.0;
    for (var i = lane; i < per_sequence; i += WG) {
        let piece = pieces[sequence * per_sequence + i];
        if piece.id != NONE {
            sum += piece.sum * exp(piece.best - best);
        }
    }
    let all = workgroup_sum(lane, sum);
    return Best(best, workgroupUniformLoad(&best_id[0]), all, workgroupUniformLoad(&broken[0]));
}

fn is_drawn(best: Best, order: Order, end: Range, score: f32, id: u32) -> bool {
    let is_among = !ruled_out(score) && is_kept(order.among, best.score, score, id);
    return is_among && is_kept(end, best_rank(order, best), rank_of(order, best, score), id);
}

// The largest score of the tokens of an order up to its end: the best of all need not be typical.
fn top_score(lane: u32, row: u32, best: Best, order: Order, end: Range) -> f32 {
    if !order.by_distance {
        return best.score;
    }
    if lane == 0u {
        atomicStore(&top_key, 0u);
    }
    workgroupBarrier();
    for (var id = lane; id < params.vocab; id += WG) {
        let score = scores[row + id];
        if is_drawn(best, order, end, score, id) {
            atomicMax(&top_key, key_of(score));
        }
    }
    workgroupBarrier();
    if lane == 0u {
        top = atomicLoad(&top_key);
    }
    return rank_of_key(workgroupUniformLoad(&top));
}

// Draws one of the tokens of an order up to its end. Invocations stand in order, each with its tokens in order.
fn draw(lane: u32, sequence: u32, row: u32, how: Settings, best: Best, order: Order, end: Range) -> u32 {
    let highest = top_score(lane, row, best, order, end);
    var own = 0.0;
    for (var id = lane; id < params.vocab; id += WG) {
        let score = scores[row + id];
        var weight = 0.0;
        if is_drawn(best, order, end, score, id) {
            weight = exp((score - highest) / how.temperature);
        }
        scores[row + id] = weight;
        own += weight;
    }
    partials[lane] = own;
    if lane == 0u {
        atomicStore(&first_lane, NONE);
        atomicStore(&last_lane, 0u);
    }
    workgroupBarrier();
    for (var distance = 1u; distance < WG; distance *= 2u) {
        var sum = partials[lane];
        if lane >= distance {
            sum += partials[lane - distance];
        }
        workgroupBarrier();
        partials[lane] = sum;
        workgroupBarrier();
    }
    let random = philox(vec4(progress[sequence].step, 0u, how.stream, 0u), how.seed).x;
    let point = f32(random >> 8u) * 0x1p-24 * partials[WG - 1u];
    if own > 0.0 {
        atomicMax(&last_lane, lane);
        if partials[lane] > point {
            atomicMin(&first_lane, lane);
        }
    }
    workgroupBarrier();
    // Rounding may leave the point behind the last.
    let drawn = min(atomicLoad(&first_lane), atomicLoad(&last_lane));
    if lane == drawn {
        var sum = select(partials[max(lane, 1u) - 1u], 0.0, lane == 0u);
        var token = best.id;
        for (var id = lane; id < params.vocab; id += WG) {
            let weight = scores[row + id];
            if weight > 0.0 {
                token = id;
                sum += weight;
                if sum > point {
                    break;
                }
            }
        }
        chosen = token;
    }
    return workgroupUniformLoad(&chosen);
}

// How a sequence stands once it has chosen a token.
fn ending(sequence: u32, token: u32, left: u32) -> u32 {
    var ended = select(GOES_ON, ENDED, left <= 1u);
    for (var i = 0u; i < settings[sequence].stops; i++) {
        if settings[sequence].stop[i] == token {
            ended = ENDED;
        }
    }
    return ended;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let sequence = unit_of(workgroup, grid);
    if sequence >= params.sequences || meeting[GAVE_UP] != 0u {
        return;
    }
    if lane == 0u {
        chosen = progress[sequence].ended;
    }
    if workgroupUniformLoad(&chosen) != GOES_ON {
        return;
    }
    let how = settings[sequence];
    let row = sequence * params.vocab;
    let best = find_best(lane, sequence, (params.vocab + PIECE - 1u) / PIECE);
    let none = best.id == NONE;
    var token = best.id;
    if how.temperature > 0.0 && best.broken == GOES_ON && !none {
        var order = by_likelihood(best);
        var end = all_tokens();
        if how.top_p < 1.0 || how.top_k < params.vocab {
            end = find_end(lane, row, order, how.top_k, how.top_p, best);
        }
        if how.typical < 1.0 {
            order = by_distance(lane, row, best, end);
            end = find_end(lane, row, order, NONE, how.typical, best);
        }
        token = draw(lane, sequence, row, how, best, order, end);
    }
    if lane == 0u {
        let before = progress[sequence];
        var ended = ending(sequence, token, before.left);
        if best.broken != GOES_ON {
            ended = best.broken;
        } else if none {
            ended = RULED_OUT;
        }
        progress[sequence] = Progress(token, before.step + 1u, before.left - 1u, ended);
        // Whatever is read there, it must be a token.
        tokens[sequence] = min(token, params.vocab - 1u);
        if ended != GOES_ON {
            // Steps that run already, or are about to, go on with this sequence: not with its state.
            segments[sequence].z = params.spare;
        }
    }
}
