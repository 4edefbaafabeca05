// Sampling, third kernel: chooses a token, hands it to the next step and ends sequences. A workgroup per sequence.
#import lib/reduce/workgroup
#import device/sampling/layout
#import device/sampling/select
#import device/sampling/philox

const WG: u32 = 256u;   // tune: 64 128 256 512 1024

@group(0) @binding(1) var<storage, read> bests: array<Best>;                  // [sequences]
@group(0) @binding(2) var<storage, read> settings: array<Settings>;           // [sequences]
@group(0) @binding(3) var<storage, read_write> scores: array<f32>; // [sequences, vocab], then the tokens' weights
@group(0) @binding(4) var<storage, read_write> progress: array<Progress>;     // [sequences]
@group(0) @binding(5) var<storage, read_write> tokens: array<u32>;            // [sequences]
@group(0) @binding(6) var<storage, read_write> segments: array<vec4<u32>>;    // [sequences]
@group(0) @binding(7) var<storage, read> grid_barrier: array<u32>; // [3] of the step before; see device/grid_barrier
// Left as 0.
@group(0) @binding(8) var<storage, read_write> histogram: array<vec2<u32>>;    // [sequences, BINS]: tokens and mass

var<workgroup> first_thread: atomic<u32>;
var<workgroup> last_thread: atomic<u32>;
var<workgroup> top_key: atomic<u32>;
var<workgroup> top: u32;
var<workgroup> chosen: u32;

fn is_drawn(best: Best, order: Order, end: Range, score: f32, id: u32) -> bool {
    return is_among(order, best, score, id) && is_kept(end, best_rank(order, best), rank_of(order, best, score), id);
}

// The largest score of the tokens of an order up to its end: the best of all need not be typical.
fn top_score(tid: u32, row: u32, best: Best, order: Order, end: Range) -> f32 {
    if !order.by_distance {
        return best.score;
    }
    if tid == 0u {
        atomicStore(&top_key, 0u);
    }
    workgroupBarrier();
    for (var id = tid; id < params.vocab; id += WG) {
        let score = scores[row + id];
        if is_drawn(best, order, end, score, id) {
            atomicMax(&top_key, key_of(score));
        }
    }
    workgroupBarrier();
    if tid == 0u {
        top = atomicLoad(&top_key);
    }
    return rank_of_key(workgroupUniformLoad(&top));
}

// Draws one of the tokens of an order up to its end. Threads are in order, each with its tokens in order.
fn draw(tid: u32, sequence: u32, row: u32, how: Settings, best: Best, order: Order, end: Range) -> u32 {
    let highest = top_score(tid, row, best, order, end);
    var own = 0.0;
    for (var at = tid; at < params.vocab; at += WG * IN_FLIGHT) {
        let next = next_scores(row, at);
        for (var i = 0u; i < IN_FLIGHT; i++) {  // unroll
            let id = at + i * WG;
            var weight = 0.0;
            if is_drawn(best, order, end, next[i], id) {
                weight = exp((next[i] - highest) / how.temperature);
            }
            if id < params.vocab {
                scores[row + id] = weight;
            }
            own += weight;
        }
    }
    let random = philox(vec4(progress[sequence].step, 0u, how.stream, 0u), how.seed).x;
    partials[tid] = own;
    if tid == 0u {
        atomicStore(&first_thread, NONE);
        atomicStore(&last_thread, 0u);
    }
    // Other threads read these scores, and one of them then changes the progress.
    storageBarrier();
    workgroupBarrier();
    for (var distance = 1u; distance < WG; distance *= 2u) {
        var sum = partials[tid];
        if tid >= distance {
            sum += partials[tid - distance];
        }
        workgroupBarrier();
        partials[tid] = sum;
        workgroupBarrier();
    }
    let point = f32(random >> 8u) * 0x1p-24 * partials[WG - 1u];
    if own > 0.0 {
        atomicMax(&last_thread, tid);
        if partials[tid] > point {
            atomicMin(&first_thread, tid);
        }
    }
    workgroupBarrier();
    // Rounding may leave the point behind the last.
    let drawn = min(atomicLoad(&first_thread), atomicLoad(&last_thread));
    var sum = select(partials[max(drawn, 1u) - 1u], 0.0, drawn == 0u);
    var is_reached = false;
    if tid == 0u {
        chosen = best.id;
    }
    // All threads read its tokens for the one that adds them up: one after another, it would wait for memory.
    for (var window = 0u; window < params.vocab; window += WG * NEAR) {
        workgroupBarrier();
        for (var i = tid; i < NEAR; i += WG) {
            let id = window + i * WG + drawn;
            near[i] = select(0u, bitcast<u32>(scores[row + min(id, params.vocab - 1u)]), id < params.vocab);
        }
        workgroupBarrier();
        if tid == 0u {
            let tokens_there = (params.vocab - window + WG - 1u) / WG;
            for (var i = 0u; i < min(tokens_there, NEAR) && !is_reached; i++) {
                let weight = bitcast<f32>(near[i]);
                if weight > 0.0 {
                    chosen = window + i * WG + drawn;
                    sum += weight;
                    is_reached = sum > point;
                }
            }
        }
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
    @builtin(local_invocation_index) tid: u32,
) {
    let sequence = workgroup_index(workgroup, grid);
    if sequence >= params.sequences || grid_barrier[TIMED_OUT] != 0u {
        return;
    }
    if tid == 0u {
        chosen = progress[sequence].ended;
    }
    if workgroupUniformLoad(&chosen) != GOES_ON {
        return;
    }
    let how = settings[sequence];
    let row = sequence * params.vocab;
    let best = bests[sequence];
    let none = best.id == NONE;
    var token = best.id;
    if how.temperature > 0.0 && best.broken == GOES_ON && !none {
        var order = by_likelihood(best);
        var end = all_tokens();
        // Min-p leaves out what top-p and top-k would keep, and never counts for them.
        let least = select(LOWEST, best.score + min(log(max(how.min_p, 1e-38)), 0.0), how.min_p > 0.0);
        // Typical sampling keeps some of what top-k and top-p keep. A loop: drivers take long to compile the search twice.
        for (var by = 0u; by < 2u; by++) {
            let share = select(how.typical, how.top_p, by == 0u);
            let top_k = select(NONE, how.top_k, by == 0u);
            if select(how.typical < 1.0, leaves_out(how), by == 0u) {
                if by == 1u {
                    order = by_distance(tid, row, best, end, least);
                }
                end = find_end(tid, sequence, order, top_k, share, best);
            }
        }
        order.least = least;
        token = draw(tid, sequence, row, how, best, order, end);
    }
    if tid == 0u {
        let before = progress[sequence];
        var ended = ending(sequence, token, before.left);
        if best.broken != GOES_ON {
            ended = best.broken;
        } else if none {
            ended = RULED_OUT;
        }
        progress[sequence] = Progress(token, before.step + 1u, before.left - 1u, ended);
        // The next step reads a token there whatever happened.
        tokens[sequence] = min(token, params.vocab - 1u);
        if ended != GOES_ON {
            // Steps in flight go on with this sequence, but not with its state.
            segments[sequence].z = params.spare;
        }
    }
}
