// Sampling, after the last kernel where a sequence asks for log-probabilities: that of the token chosen, then the
// likeliest tokens with theirs, by the model's own logits, before penalties, biases and masks. A workgroup per
// sequence.
#import device/sampling/layout
#import lib/reduce/workgroup

const WG: u32 = 256u;
const MOST_LISTED: u32 = 21u;

struct Listed {
    token: u32,     // NONE: all tokens are listed
    logprob: f32,
}

@group(0) @binding(1) var<storage, read> logits: array<f32>;                 // [sequences, vocab]
@group(0) @binding(2) var<storage, read> settings: array<Settings>;          // [sequences]
@group(0) @binding(3) var<storage, read> progress: array<Progress>;          // [sequences]
@group(0) @binding(4) var<storage, read_write> logprobs: array<Listed>;  // [sequences, MOST_LISTED], the chosen first
@group(0) @binding(5) var<storage, read> grid_barrier: array<u32>; // [3] of the step before; see device/grid_barrier

var<workgroup> best: array<f32, WG>;
var<workgroup> best_id: array<u32, WG>;

// Whether the first of two tokens is likelier; of equal ones the lower.
fn precedes(score: f32, id: u32, other: f32, other_id: u32) -> bool {
    return score > other || (score == other && id < other_id);
}

// The likeliest token behind another one.
fn next_likeliest(tid: u32, row: u32, score: f32, id: u32) -> vec2<u32> {
    var own = bitcast<f32>(0xff800000u);
    var own_id = NONE;
    for (var i = tid; i < params.vocab; i += WG) {
        let logit = logits[row + i];
        let is_behind = id == NONE || precedes(score, id, logit, i);
        if !ruled_out(logit) && is_behind && (own_id == NONE || precedes(logit, i, own, own_id)) {
            own = logit;
            own_id = i;
        }
    }
    best[tid] = own;
    best_id[tid] = own_id;
    workgroupBarrier();
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        if tid < stride {
            let other = tid + stride;
            let is_there = best_id[other] != NONE;
            if is_there && (best_id[tid] == NONE || precedes(best[other], best_id[other], best[tid], best_id[tid])) {
                best[tid] = best[other];
                best_id[tid] = best_id[other];
            }
        }
        workgroupBarrier();
    }
    return vec2(bitcast<u32>(workgroupUniformLoad(&best[0])), workgroupUniformLoad(&best_id[0]));
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
    let listed = min(settings[sequence].listed, MOST_LISTED);
    if listed == 0u {
        return;
    }
    let row = sequence * params.vocab;
    var next = next_likeliest(tid, row, 0.0, NONE);
    let highest = bitcast<f32>(next.x);
    var sum = 0.0;
    for (var id = tid; id < params.vocab; id += WG) {
        let logit = logits[row + id];
        if !ruled_out(logit) {
            sum += exp(logit - highest);
        }
    }
    let scale = log(reduce_sum(Thread(tid), sum));
    let at = sequence * MOST_LISTED;
    if tid == 0u {
        let token = progress[sequence].token;
        logprobs[at] = Listed(token, logits[row + min(token, params.vocab - 1u)] - highest - scale);
    }
    for (var i = 1u; i < listed; i++) {
        if tid == 0u {
            logprobs[at + i] = Listed(next.y, bitcast<f32>(next.x) - highest - scale);
        }
        if next.y != NONE {
            next = next_likeliest(tid, row, bitcast<f32>(next.x), next.y);
        }
    }
}
