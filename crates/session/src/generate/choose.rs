//! Options of a text, for the device.

use super::GenerateOptions;
use std::num::NonZeroU32;
use wgoose_runtime::{Continuation, MAX_STOPS, Sampling};

/// How a device continues a text: `drawn` tokens were chosen before and count as `chosen`, `most` are to be chosen now.
/// Stop tokens beyond what the device takes are left to the caller, who looks at every token anyway.
pub(crate) fn continuation<'a>(
    slot: usize,
    options: &'a GenerateOptions,
    chosen: &'a [(u32, f32)],
    drawn: usize,
    most: usize,
) -> Continuation<'a> {
    let how = &options.sampling;
    let sampling = Sampling {
        temperature: how.temperature,
        top_p: how.top_p,
        top_k: how.top_k.and_then(|k| NonZeroU32::try_from(k).ok()),
        typical: how.typical,
        penalties: how.penalties,
        seed: how.seed,
        stream: 0,
        drawn: drawn as u32,
    };
    let stops = &options.stop_tokens[..options.stop_tokens.len().min(MAX_STOPS)];
    let max_tokens = u32::try_from(most).unwrap_or(u32::MAX);
    Continuation { slot, sampling, bias: &how.bias, chosen, stops, max_tokens }
}
