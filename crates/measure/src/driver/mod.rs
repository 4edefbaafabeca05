//! An engine that reads and writes, always from the same beginning, and the time that this takes.
//!
//! Every speed that wgoose prints comes from here: `bench`, `tune`, `compare`, `experiment` and `dev profile` call
//! [`read`] and [`write()`], and [`timer`](crate::timer) says how often.

mod drive;

pub use drive::{Chooser, Drive, Sequences, WeightsAtStart};

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::time::Instant;
use wgoose_runtime::{
    Continuation, DecodeReport, Engine, IN_FLIGHT, Outputs, RuntimeError, Sampling, Sequence, Start, StateData,
};

/// Prompts of `tokens` tokens each, a different one for each sequence: `[sequences][tokens]`.
pub fn prompts(sequences: usize, tokens: usize, vocab: u32) -> Vec<Vec<u32>> {
    let token = |slot: u64, t: u64| ((t * 7919 + 13 + slot * 31) % u64::from(vocab)) as u32;
    (0..sequences as u64).map(|slot| (0..tokens as u64).map(|t| token(slot, t)).collect()).collect()
}

/// Gives the first sequences this state, or the empty one, and waits until the device has it.
///
/// # Errors
/// The engine has fewer sequences, the state is not the model's, or the device fails.
pub fn settle(engine: &mut Engine, sequences: usize, state: Option<&StateData>) -> Result<(), RuntimeError> {
    match state {
        None => engine.reset(0..sequences)?,
        Some(state) => (0..sequences).try_for_each(|slot| engine.set_state(slot, state))?,
    }
    engine.settle()
}

/// Prompts that were read.
#[derive(Clone, Debug)]
pub struct Read {
    /// Wall-clock nanoseconds until the logits are in memory.
    pub ns: f64,
    /// The last logits of each sequence: `[sequences][vocab]`.
    pub logits: Vec<Vec<f32>>,
}

/// Reads a prompt for each sequence from slot `first` on, all in one call.
///
/// # Errors
/// There are no such slots, a token is not in the vocabulary, or the device fails.
pub fn read(engine: &mut Engine, first: usize, prompts: &[Vec<u32>]) -> Result<Read, RuntimeError> {
    let begun = Instant::now();
    let logits = engine.forward(&batch(first, prompts))?;
    Ok(Read { ns: begun.elapsed().as_nanos() as f64, logits })
}

/// The same after empty states: a run of prefill.
///
/// # Errors
/// As for [`read`].
pub fn prefill(engine: &mut Engine, prompts: &[Vec<u32>]) -> Result<Read, RuntimeError> {
    settle(engine, prompts.len(), None)?;
    read(engine, 0, prompts)
}

/// Where writing begins.
#[derive(Clone, Copy, Debug)]
pub enum Begin<'a> {
    /// With a token of each sequence, which it reads first.
    Tokens(&'a [u32]),
    /// With the logits after what each sequence has read: `[sequences][vocab]`.
    Logits(&'a [Vec<f32>]),
}

/// Sequences that were continued, greedily.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Wall-clock nanoseconds until all tokens are known.
    pub ns: f64,
    /// The same until the first tokens are known.
    pub first_ns: f64,
    /// What the device says of it; `None` where the host chose the tokens.
    pub report: Option<DecodeReport>,
}

/// Continues the sequences from slot `first` on by `tokens` each. The host chooses them where the drive or the engine
/// wants it.
///
/// # Errors
/// There are no such slots, the logits have no likeliest token, or the device fails.
pub fn write(
    engine: &mut Engine,
    first: usize,
    begin: Begin<'_>,
    tokens: u32,
    drive: &Drive,
) -> Result<Written, RuntimeError> {
    let begun = Instant::now();
    let since = || begun.elapsed().as_nanos() as f64;
    let mut first_ns = None;
    let report = match drive.chooser {
        Chooser::Device if engine.can_decode() => {
            let in_flight = drive.in_flight.map_or(IN_FLIGHT, NonZeroUsize::get);
            Some(on_device(engine, first, begin, (tokens, in_flight), &mut || {
                first_ns.get_or_insert_with(since);
            })?)
        }
        _ => {
            on_host(engine, first, begin, tokens, &mut || {
                first_ns.get_or_insert_with(since);
            })?;
            None
        }
    };
    let ns = since();
    Ok(Written { ns, first_ns: first_ns.unwrap_or(ns), report })
}

/// Sequences that write `tokens` tokens each after empty states and one token that they read: a run of decode.
///
/// # Errors
/// As for [`write()`].
pub fn decode(engine: &mut Engine, sequences: usize, tokens: u32) -> Result<Written, RuntimeError> {
    settle(engine, sequences, None)?;
    let start = prompts(sequences, 1, engine.shape().vocab).concat();
    write(engine, 0, Begin::Tokens(&start), tokens, &Drive::default())
}

/// A decode step of the first sequences after empty states and one token, in one pass with the prefill of prompts in
/// the slots behind them. Wall-clock nanoseconds until the tokens are known.
///
/// # Errors
/// There are no such slots, or the device fails or cannot choose tokens.
pub fn decode_beside(engine: &mut Engine, decoding: usize, prompts: &[Vec<u32>]) -> Result<f64, RuntimeError> {
    settle(engine, decoding + prompts.len(), None)?;
    let begun = Instant::now();
    let start = self::prompts(decoding, 1, engine.shape().vocab).concat();
    let sequences: Vec<_> = (0..decoding).map(|slot| Continuation::new(slot, Sampling::GREEDY, 1)).collect();
    let prefilled: Vec<Sequence<'_>> = batch(decoding, prompts);
    engine.decode_beside(&start, &sequences, &prefilled, &mut |_| ())?;
    Ok(begun.elapsed().as_nanos() as f64)
}

fn on_device(
    engine: &mut Engine,
    first: usize,
    begin: Begin<'_>,
    (tokens, in_flight): (u32, usize),
    on_tokens: &mut dyn FnMut(),
) -> Result<DecodeReport, RuntimeError> {
    let concatenated;
    let (start, sequences) = match begin {
        Begin::Tokens(tokens) => (Start::Tokens(tokens), tokens.len()),
        Begin::Logits(logits) => {
            concatenated = logits.concat();
            (Start::Logits(&concatenated), logits.len())
        }
    };
    let on = |i| Continuation::new(first + i, Sampling::GREEDY, tokens);
    let sequences: Vec<Continuation<'_>> = (0..sequences).map(on).collect();
    engine.decode(start, &sequences, in_flight, &mut |_| {
        on_tokens();
        ControlFlow::Continue(())
    })
}

fn on_host(
    engine: &mut Engine,
    first: usize,
    begin: Begin<'_>,
    tokens: u32,
    on_tokens: &mut dyn FnMut(),
) -> Result<(), RuntimeError> {
    // Of logits the first tokens are chosen before anything is read.
    let (mut next, passes): (Vec<Vec<u32>>, u32) = match begin {
        Begin::Tokens(start) => (start.iter().map(|token| vec![*token]).collect(), tokens),
        Begin::Logits(logits) => {
            on_tokens();
            (logits.iter().map(|row| vec![likeliest(row)]).collect(), tokens.saturating_sub(1))
        }
    };
    for _ in 0..passes {
        let logits = engine.forward(&batch(first, &next))?;
        next.iter_mut().zip(&logits).for_each(|(next, row)| *next = vec![likeliest(row)]);
        on_tokens();
    }
    Ok(())
}

/// What sequences from that slot on read, with their last logits.
pub(crate) fn batch(first: usize, tokens: &[Vec<u32>]) -> Vec<Sequence<'_>> {
    let sequence = |(i, tokens)| Sequence { slot: first + i, tokens: Vec::as_slice(tokens), outputs: Outputs::Last };
    tokens.iter().enumerate().map(sequence).collect()
}

fn likeliest(row: &[f32]) -> u32 {
    row.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(id, _)| id as u32)
}
