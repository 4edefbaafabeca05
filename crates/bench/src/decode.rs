//! Decoding, greedy, as whole runs of the runtime's own loop.

use crate::progress::say;
use crate::{BenchError, BenchProgress, Load, Watch, ms, prompt};
use std::ops::ControlFlow;
use std::time::Instant;
use wgoose_runtime::{Continuation, Engine, IN_FLIGHT, Outputs, Sampling, Sequence, Start, StateData};
use wgoose_session::sampling::greedy;

/// Tokens that each sequence reads first.
pub(crate) const PROMPT: u32 = 16;

/// What decoding took.
pub(crate) struct Decoded {
    /// Milliseconds of each run.
    pub(crate) ms: Vec<f64>,
    /// Share of the time that the CPU spent encoding steps; absent where tokens are not chosen on the device.
    pub(crate) encode_share: Option<f64>,
}

/// What to say of a run, where one that is not counted comes first.
pub(crate) fn progress(what: &str, run: usize, runs: usize) -> BenchProgress<'_> {
    match run {
        0 => BenchProgress::WarmUp { what, run: 1 },
        run => BenchProgress::Run { what, run, of: runs },
    }
}

/// Continues sequences together by so many tokens, from fresh states, once uncounted and then as often as the load says.
pub(crate) fn measure(engine: &mut Engine, load: &Load, watch: &mut Watch<'_>) -> Result<Decoded, BenchError> {
    let Load { sequences, decode_tokens, runs, .. } = *load;
    let vocab = engine.shape().vocab;
    let prompts: Vec<Vec<u32>> = (0..sequences as u32)
        .map(|slot| prompt(PROMPT, vocab).iter().map(|t| (t + 31 * slot) % vocab).collect())
        .collect();
    let turns = (0..=runs).map(|run| {
        say(watch, progress("writing", run, runs))?;
        turn(engine, &prompts, decode_tokens, None)
    });
    let turns = turns.collect::<Result<Vec<Turn>, _>>()?.split_off(1);
    let times: Vec<f64> = turns.iter().map(|turn| turn.decode_ms).collect();
    let encoding: Option<f64> = turns.iter().map(|turn| turn.encode_ms).sum();
    let encode_share = encoding.map(|encoding| encoding / times.iter().sum::<f64>());
    Ok(Decoded { ms: times, encode_share })
}

/// Prompts read and continued together. All times are in milliseconds.
pub(crate) struct Turn {
    /// Reading the prompts, in one call, until the last logits of each are there.
    pub(crate) read_ms: f64,
    /// From the same beginning until the first tokens are chosen.
    pub(crate) first_ms: f64,
    /// From the logits of the prompts until all tokens are chosen.
    pub(crate) decode_ms: f64,
    /// How much of that the CPU spent encoding steps; `None` where tokens are not chosen on the device.
    pub(crate) encode_ms: Option<f64>,
}

/// Reads a prompt a sequence, after that state or none, and continues each by so many tokens.
pub(crate) fn turn(
    engine: &mut Engine,
    prompts: &[Vec<u32>],
    tokens: usize,
    state: Option<&StateData>,
) -> Result<Turn, BenchError> {
    settle(engine, prompts.len(), state)?;
    let begun = Instant::now();
    let mut logits = forward(engine, prompts.iter().map(Vec::as_slice))?;
    let read_ms = ms(begun);
    let decoding = Instant::now();
    let mut first_ms = None;
    if !engine.can_decode() {
        for _ in 0..tokens {
            let chosen = logits.iter().map(|l| greedy(l)).collect::<Result<Vec<u32>, _>>()?;
            first_ms.get_or_insert_with(|| ms(begun));
            logits = forward(engine, chosen.iter().map(std::slice::from_ref))?;
        }
        let (first_ms, decode_ms) = (first_ms.unwrap_or(read_ms), ms(decoding));
        return Ok(Turn { read_ms, first_ms, decode_ms, encode_ms: None });
    }
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    let all: Vec<Continuation<'_>> = (0..prompts.len())
        .map(|slot| Continuation { slot, sampling, bias: &[], chosen: &[], stops: &[], max_tokens: tokens as u32 })
        .collect();
    let report = engine.decode(Start::Logits(&logits.concat()), &all, IN_FLIGHT, &mut |_| {
        first_ms.get_or_insert_with(|| ms(begun));
        ControlFlow::Continue(())
    })?;
    let (first_ms, decode_ms) = (first_ms.unwrap_or(read_ms), ms(decoding));
    Ok(Turn { read_ms, first_ms, decode_ms, encode_ms: Some(report.encode_seconds * 1e3) })
}

/// Gives the first sequences this state, or none, and waits until the device has it.
pub(crate) fn settle(engine: &mut Engine, sequences: usize, state: Option<&StateData>) -> Result<(), BenchError> {
    match state {
        None => engine.reset(0..sequences)?,
        Some(state) => (0..sequences).try_for_each(|slot| engine.set_state(slot, state))?,
    }
    Ok(engine.settle()?)
}

/// The last logits of each sequence.
pub(crate) fn forward<'a>(
    engine: &mut Engine,
    tokens: impl Iterator<Item = &'a [u32]>,
) -> Result<Vec<Vec<f32>>, BenchError> {
    let last = |(slot, tokens)| Sequence { slot, tokens, outputs: Outputs::Last };
    Ok(engine.forward(&tokens.enumerate().map(last).collect::<Vec<_>>())?)
}
