//! Options of a text, for the device.

use super::GenerateOptions;
use std::num::NonZeroU32;
use wgoose_runtime::{Continuation, MAX_STOPS, Sampling};

/// How a device continues a text by one token; `drawn` tokens were chosen before, and `past` is what penalties look
/// at. Stop tokens beyond what the device takes are left to the caller, who looks at every token anyway.
pub(crate) fn continuation<'a>(
    slot: usize,
    options: &'a GenerateOptions,
    past: &'a [(u32, f32)],
    drawn: usize,
) -> Continuation<'a> {
    let how = &options.sampling;
    let sampling = Sampling {
        temperature: how.temperature,
        top_p: how.top_p,
        top_k: how.top_k.and_then(|k| NonZeroU32::try_from(k).ok()),
        min_p: how.min_p,
        typical: how.typical,
        penalties: how.penalties,
        seed: how.seed,
        stream: 0,
        drawn: drawn as u32,
    };
    let stops = &options.stop_tokens[..options.stop_tokens.len().min(MAX_STOPS)];
    Continuation { bias: &how.bias, past, listed: options.logprobs, stops, ..Continuation::new(slot, sampling, 1) }
}
