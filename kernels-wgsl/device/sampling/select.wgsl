// Radix select (Alabi et al., "Fast k-selection algorithms for graphics processing units", 2012): which tokens top-k,
// top-p and typical sampling keep, by a workgroup of at most BINS threads, from the scores of device/sampling/scores
// and the histogram of device/sampling/histogram.
//
// Top-p and top-k keep the beginning of all tokens in the order of likelihood, ties in that of ids. Typical sampling keeps the
// beginning of these in the order of distance from their mean score: with p = exp(score) / z, the distance of -log p from the
// entropy is that of the score from its mean, z cancels. Where a beginning ends is found without sorting, and for either order
// alike, by ranks: a histogram of the tokens' number and probability tells the bin in which it ends, then that bin is divided
// further: bins of ranks, then of single floats, then of ids. Probabilities are summed as integers, in units of 2^-31: in any
// order the sums are the same.
// requires: const WG, var histogram, scores
#import device/sampling/layout
#import device/sampling/bins
#import lib/reduce/workgroup

// Scores that a thread reads before it looks at the first: one after another, each would wait for memory.
const IN_FLIGHT: u32 = 4u;
const OWN_BINS: u32 = BINS / WG;
// Tokens of a bin that are few enough to be listed.
const NEAR: u32 = 1024u;

var<workgroup> scan: array<vec2<u32>, WG>;
var<workgroup> bin_count: array<atomic<u32>, BINS>;
var<workgroup> bin_mass: array<atomic<u32>, BINS>;
var<workgroup> near: array<u32, NEAR>;
var<workgroup> near_count: atomic<u32>;
var<workgroup> found: Found;
var<workgroup> whole_mass: u32;

// Tokens in an order: those `among` others, by their ranks.
struct Order {
    among: Range,           // of likelihood
    by_distance: bool,      // from the mean score; else by likelihood
    mean: f32,              // score, above the best
    sum: f32,               // of exp(score - best)
    least: f32,             // no token below this score is among them
}

// The bin in which the tokens kept end.
struct Found {
    bin: u32,       // NONE: they never end
    count: u32,     // its tokens
    mass: u32,
    count_before: u32,
    mass_before: u32,
}

// Where the tokens kept end: those before the range are kept, those behind it are not.
struct Range {
    bin: u32,       // of ranks; NONE while that is not known
    high: u32,      // keys in that bin, from the likeliest
    low: u32,       // to the least likely
    first: u32,     // ids, once the key is known
    last: u32,
}

// The score of a token; behind the last one, that of a token ruled out.
fn score_of(row: u32, id: u32) -> f32 {
    // sanitizer: allow dropped-race: behind the vocabulary the last token's score is loaded and not used
    let score = scores[row + min(id, params.vocab - 1u)];
    return bitcast<f32>(select(0xff800000u, bitcast<u32>(score), id < params.vocab));
}

// The scores of a thread's next tokens: from `first`, WG apart.
fn next_scores(row: u32, first: u32) -> array<f32, IN_FLIGHT> {
    var next: array<f32, IN_FLIGHT>;
    for (var i = 0u; i < IN_FLIGHT; i++) {  // unroll
        next[i] = score_of(row, first + i * WG);
    }
    return next;
}

// All tokens, the likeliest first.
fn by_likelihood(best: Best) -> Order {
    return Order(all_tokens(), false, 0.0, best.sum, LOWEST);
}

// The tokens of a range, none below a score, the most typical first.
fn by_distance(tid: u32, row: u32, best: Best, among: Range, least: f32) -> Order {
    var sum = 0.0;
    var moment = 0.0;
    for (var id = tid; id < params.vocab; id += WG) {
        let score = scores[row + id];
        if score >= least && !ruled_out(score) && is_kept(among, best.score, score, id) {
            let weight = exp(score - best.score);
            sum += weight;
            moment += weight * (score - best.score);
        }
    }
    let all = reduce_sum(Thread(tid), sum);
    return Order(among, true, reduce_sum(Thread(tid), moment) / all, all, least);
}

// What the order goes by, the largest first.
fn rank_of(order: Order, best: Best, score: f32) -> f32 {
    return select(score, 0.0 - abs(score - best.score - order.mean), order.by_distance);
}

// The largest there can be.
fn best_rank(order: Order, best: Best) -> f32 {
    return select(best.score, 0.0, order.by_distance);
}

// All tokens: where they end if nothing is left out.
fn all_tokens() -> Range {
    let lowest = key_of(LOWEST);
    return Range(NONE, lowest, lowest, 0u, params.vocab - 1u);
}

// Larger for the larger of two ranks.
fn key_of(rank: f32) -> u32 {
    let bits = bitcast<u32>(rank);
    return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}

fn rank_of_key(key: u32) -> f32 {
    return bitcast<f32>(select(~key, key & 0x7fffffffu, key >= 0x80000000u));
}

// Finds the first bin at which `top_k` tokens or the mass of the goal are reached, given what lies before all bins. The
// goal is known, and returned, once the first histogram has all of the mass; until then it is 0.
fn find_bin(tid: u32, count_before: u32, mass_before: u32, top_k: u32, top_p: f32, known_goal: u32) -> u32 {
    var own = vec2(0u);
    for (var i = 0u; i < OWN_BINS; i++) {
        let bin = tid * OWN_BINS + i;
        own += vec2(atomicLoad(&bin_count[bin]), atomicLoad(&bin_mass[bin]));
    }
    scan[tid] = own;
    workgroupBarrier();
    for (var distance = 1u; distance < WG; distance *= 2u) {
        var sum = scan[tid];
        if tid >= distance {
            sum += scan[tid - distance];
        }
        workgroupBarrier();
        scan[tid] = sum;
        workgroupBarrier();
    }
    if tid == 0u {
        whole_mass = scan[WG - 1u].y;
        found.bin = NONE;
    }
    // All of the mass is in the first histogram.
    let whole = workgroupUniformLoad(&whole_mass);
    var goal = known_goal;
    if goal == 0u {
        goal = NONE;
        if top_p < 1.0 {
            goal = clamp(u32(ceil(top_p * f32(whole))), 1u, whole);
        }
    }
    var at = vec2(count_before, mass_before) + scan[tid] - own;
    let reached_before = at.x >= top_k || at.y >= goal;
    let reached = at.x + own.x >= top_k || at.y + own.y >= goal;
    if reached && !reached_before {
        for (var i = 0u; i < OWN_BINS; i++) {
            let bin = tid * OWN_BINS + i;
            let inside = vec2(atomicLoad(&bin_count[bin]), atomicLoad(&bin_mass[bin]));
            if at.x + inside.x >= top_k || at.y + inside.y >= goal {
                found = Found(bin, inside.x, inside.y, at.x, at.y);
                break;
            }
            at += inside;
        }
    }
    return goal;
}

// How far to shift offsets up to `span` for them to be bins.
fn shift_of(span: u32) -> u32 {
    return 22u - min(countLeadingZeros(span), 22u);
}

// The part of a range that falls into a bin.
fn narrowed(range: Range, bin: u32, best: f32) -> Range {
    var part = range;
    if range.bin == NONE {
        // A little more than the bin, against rounding.
        let slack = (abs(best) + 32.0) * 1e-6;
        let end = select(best - f32(bin + 1u) / FINENESS - slack, LOWEST, bin == BINS - 1u);
        part.bin = bin;
        part.high = key_of(min(best, best - f32(bin) / FINENESS + slack));
        part.low = key_of(max(end, LOWEST));
    } else if range.high > range.low {
        let shift = shift_of(range.high - range.low);
        part.high = range.high - (bin << shift);
        part.low = part.high - min(part.high - range.low, (1u << shift) - 1u);
    } else {
        let shift = shift_of(range.last - range.first);
        part.first = range.first + (bin << shift);
        part.last = part.first + min(range.last - part.first, (1u << shift) - 1u);
    }
    return part;
}

// The bin of a token of the range; NONE for others.
fn bin_of(range: Range, best: f32, rank: f32, id: u32) -> u32 {
    if range.bin == NONE {
        return rank_bin(best, rank);
    }
    // Most tokens are elsewhere.
    let key = key_of(rank);
    if key > range.high || key < range.low || rank_bin(best, rank) != range.bin {
        return NONE;
    }
    if range.high > range.low {
        return (range.high - key) >> shift_of(range.high - range.low);
    }
    if id < range.first || id > range.last {
        return NONE;
    }
    return (id - range.first) >> shift_of(range.last - range.first);
}

// Whether a token is one of those of the order.
fn is_among(order: Order, best: Best, score: f32, id: u32) -> bool {
    return score >= order.least && !ruled_out(score) && is_kept(order.among, best.score, score, id);
}

// Counts a token in the bin of its rank, or in none. Whether it is in the range.
fn count_token(range: Range, order: Order, best: Best, score: f32, id: u32) -> bool {
    if !is_among(order, best, score, id) {
        return false;
    }
    let bin = bin_of(range, best_rank(order, best), rank_of(order, best, score), id);
    if bin == NONE {
        return false;
    }
    atomicAdd(&bin_count[bin], 1u);
    atomicAdd(&bin_mass[bin], mass_of(score, best.score, unit_of(order.sum)));
    return true;
}

// The range in which the first `top_k` tokens of an order end, or those that first have a share `top_p` of all, narrow
// enough that all of it is kept.
fn find_end(tid: u32, sequence: u32, order: Order, top_k: u32, top_p: f32, best: Best) -> Range {
    let row = sequence * params.vocab;
    var range = all_tokens();
    var goal = 0u;
    var count = NONE;       // tokens of the range, once that is known
    var is_listed = false;
    var count_before = 0u;
    var mass_before = 0u;
    if tid == 0u {
        atomicStore(&near_count, 0u);
    }
    // 1 histogram of ranks, 4 at most of keys, 3 of ids.
    for (var level = 0u; level < 8u; level++) {
        let is_counted = level == 0u && !order.by_distance;
        for (var bin = tid; bin < BINS; bin += WG) {
            var inside = vec2(0u);
            if is_counted {
                inside = histogram[sequence * BINS + bin];
                histogram[sequence * BINS + bin] = vec2(0u);
            }
            atomicStore(&bin_count[bin], inside.x);
            atomicStore(&bin_mass[bin], inside.y);
        }
        workgroupBarrier();
        if is_listed {
            for (var i = tid; i < atomicLoad(&near_count); i += WG) {
                count_token(range, order, best, scores[row + near[i]], near[i]);
            }
        } else if !is_counted {
            for (var at = tid; at < params.vocab; at += WG * IN_FLIGHT) {
                let next = next_scores(row, at);
                for (var i = 0u; i < IN_FLIGHT; i++) {  // unroll
                    let id = at + i * WG;
                    if count_token(range, order, best, next[i], id) && count <= NEAR {
                        near[atomicAdd(&near_count, 1u)] = id;
                    }
                }
            }
            is_listed = count <= NEAR;
        }
        workgroupBarrier();
        goal = find_bin(tid, count_before, mass_before, top_k, top_p, goal);
        let end = workgroupUniformLoad(&found);
        if end.bin == NONE {
            return range;
        }
        range = narrowed(range, end.bin, best_rank(order, best));
        count_before = end.count_before;
        mass_before = end.mass_before;
        let last_of_top_k = end.count_before + end.count == top_k && end.mass_before + end.mass < goal;
        if end.count == 1u || last_of_top_k {
            return range;
        }
        count = end.count;
    }
    return range;
}

fn is_kept(range: Range, best: f32, rank: f32, id: u32) -> bool {
    // Bins go by ranks, and a token of the last bin lies in the range: what does not is told by the range alone.
    let key = key_of(rank);
    if key > range.high || key < range.low {
        return key > range.high;
    }
    let bin = rank_bin(best, rank);
    return bin < range.bin || (bin == range.bin && (key > range.low || id <= range.last));
}
