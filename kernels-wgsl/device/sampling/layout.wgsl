// What the kernels of sampling share. Must match crates/kernels/src/sampling.rs and crates/runtime/src/sampler/settings.rs.
#import device/dispatch

struct Params {
    vocab: u32,
    sequences: u32,
    spare: u32,     // an unread state slot: ended sequences write into it
    unused: u32,
}
@group(0) @binding(0) var<uniform> params: Params;    // [1]

// How a sequence's tokens are chosen.
struct Settings {
    temperature: f32,       // 0: the likeliest
    top_p: f32,
    top_k: u32,             // NONE: off
    presence: f32,          // subtracted from the logit of every token chosen before
    frequency: f32,         // subtracted as often as it was chosen
    decay: f32,             // of how often, with every token chosen
    seed: vec2<u32>,
    stream: u32,
    stops: u32,             // how many of `stop` there are
    typical: f32,
    adjusted: u32,          // 0: no token's logit is adjusted
    min_p: f32,
    repetition: f32,        // divides positive logits of tokens seen before, multiplies the others
    masked: u32,            // 0: all tokens are allowed
    listed: u32,            // 0: no log-probabilities; else how many of them
    stop: array<u32, 8>,
}

// What the logit of a token is adjusted by.
struct Adjustment {
    count: f32,     // how often it was chosen, long ago counting less
    seen: u32,      // 0: neither chosen nor in the prompt
    bias: f32,
}

// How far it has come; what the host reads.
struct Progress {
    token: u32,     // chosen last; NONE before the first
    step: u32,      // tokens chosen
    left: u32,      // tokens that may still be chosen
    ended: u32,     // how it ended, if it did
}

const GOES_ON: u32 = 0u;
const ENDED: u32 = 1u;
const NOT_A_NUMBER: u32 = 2u;
const INFINITE: u32 = 3u;
const RULED_OUT: u32 = 4u;

// What the first kernel knows of a slice of the vocabulary.
struct VocabSlice {
    best: f32,      // the largest score
    id: u32,        // the first token that has it; NONE if all are ruled out
    sum: f32,       // of exp(score - best)
    broken: u32,    // GOES_ON, NOT_A_NUMBER or INFINITE
}

// What the second kernel knows of all slices.
struct Best {
    score: f32,
    id: u32,        // NONE if all are ruled out
    sum: f32,       // of exp(score - best)
    broken: u32,
}

// The word of a grid barrier that is set once it timed out; must match device/grid_barrier.
const TIMED_OUT: u32 = 2u;

const NONE: u32 = 0xffffffffu;
const SLICE: u32 = 1024u;
const LOWEST: f32 = -3.4028234e38;

// Whether top-k or top-p leaves any token out.
fn leaves_out(how: Settings) -> bool {
    return how.top_p < 1.0 || how.top_k < params.vocab;
}

// Compilers may assume that there are no infinities, so look at the bits.
fn ruled_out(score: f32) -> bool {
    return bitcast<u32>(score) == 0xff800000u;
}
