// Sampling, first kernel: penalises, biases and masks logits, and finds the best of each slice of the vocabulary. A
// workgroup per sequence and slice.
#import device/sampling/layout

const WG: u32 = 256u;
const PER_THREAD: u32 = SLICE / WG;

@group(0) @binding(1) var<storage, read> logits: array<f32>;                 // [sequences, vocab]
@group(0) @binding(2) var<storage, read> settings: array<Settings>;          // [sequences]
@group(0) @binding(3) var<storage, read> progress: array<Progress>;          // [sequences]
@group(0) @binding(4) var<storage, read_write> adjustments: array<Adjustment>;    // [sequences, vocab], if any has them
@group(0) @binding(5) var<storage, read_write> scores: array<f32>;           // [sequences, vocab]
@group(0) @binding(6) var<storage, read_write> slices: array<VocabSlice>;    // [sequences, slices]
@group(0) @binding(7) var<storage, read> grid_barrier: array<u32>; // [3] of the step before; see device/grid_barrier
@group(0) @binding(8) var<storage, read> masks: array<u32>; // [sequences, vocab / 32]: 1 allows a token

var<workgroup> best: array<f32, WG>;
var<workgroup> best_id: array<u32, WG>;
var<workgroup> sums: array<f32, WG>;
var<workgroup> broken: array<u32, WG>;

// The adjustment of a token; what was chosen last is counted first.
fn adjustment(how: Settings, previous: u32, at: u32, id: u32) -> Adjustment {
    var own = adjustments[at];
    if previous != NONE {
        own.count = own.count * how.decay + select(0.0, 1.0, id == previous);
        own.seen = select(own.seen, 1u, id == previous);
        adjustments[at] = own;
    }
    return own;
}

fn penalised(how: Settings, own: Adjustment, logit: f32) -> f32 {
    var score = logit;
    if own.seen != 0u {
        score = select(logit * how.repetition, logit / how.repetition, logit > 0.0);
    }
    return score - select(0.0, how.presence, own.count > 0.0) - how.frequency * own.count;
}

fn is_allowed(sequence: u32, id: u32) -> bool {
    let words = (params.vocab + 31u) / 32u;
    return (masks[sequence * words + id / 32u] >> (id % 32u) & 1u) == 1u;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let index = workgroup_index(workgroup, grid);
    let slices_per_sequence = (params.vocab + SLICE - 1u) / SLICE;
    let sequence = index / slices_per_sequence;
    if sequence >= params.sequences || grid_barrier[TIMED_OUT] != 0u {
        return;
    }
    let first = index % slices_per_sequence * SLICE;
    let how = settings[sequence];
    let previous = progress[sequence].token;

    var own: array<f32, PER_THREAD>;
    var own_best = LOWEST;
    var own_id = NONE;
    var own_broken = GOES_ON;
    for (var i = 0u; i < PER_THREAD; i++) {
        let id = first + i * WG + tid;
        own[i] = bitcast<f32>(0xff800000u);
        if id < params.vocab {
            let at = sequence * params.vocab + id;
            let logit = logits[at];
            let magnitude = bitcast<u32>(logit) & 0x7fffffffu;
            if magnitude > 0x7f800000u {
                own_broken = NOT_A_NUMBER;
            } else if bitcast<u32>(logit) == 0x7f800000u {
                own_broken = select(INFINITE, own_broken, own_broken == NOT_A_NUMBER);
            }
            var score = logit;
            var banned = ruled_out(logit) || (how.masked != 0u && !is_allowed(sequence, id));
            if how.adjusted != 0u {
                let adjusted_by = adjustment(how, previous, at, id);
                banned = banned || ruled_out(adjusted_by.bias);
                score = penalised(how, adjusted_by, logit) + adjusted_by.bias;
            }
            if !banned {
                // Zero has one sign.
                score = select(score, 0.0, score == 0.0);
                own[i] = score;
                if score > own_best || own_id == NONE {
                    own_best = score;
                    own_id = id;
                }
            }
            if how.temperature > 0.0 {
                scores[at] = own[i];
            }
        }
    }
    best[tid] = own_best;
    best_id[tid] = own_id;
    broken[tid] = own_broken;
    workgroupBarrier();
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        if tid < stride {
            let other = tid + stride;
            let wins = best[other] > best[tid] || (best[other] == best[tid] && best_id[other] < best_id[tid]);
            if wins {
                best[tid] = best[other];
                best_id[tid] = best_id[other];
            }
            // NaN outranks infinity.
            if broken[tid] == GOES_ON || broken[other] == NOT_A_NUMBER {
                broken[tid] = broken[other];
            }
        }
        workgroupBarrier();
    }
    var sum = 0.0;
    for (var i = 0u; i < PER_THREAD; i++) {
        if !ruled_out(own[i]) {
            sum += exp(own[i] - best[0]);
        }
    }
    sums[tid] = sum;
    workgroupBarrier();
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        if tid < stride {
            sums[tid] += sums[tid + stride];
        }
        workgroupBarrier();
    }
    if tid == 0u {
        slices[index] = VocabSlice(best[0], best_id[0], sums[0], broken[0]);
    }
}
