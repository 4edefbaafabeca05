//! Decoding, greedy, as whole runs of the runtime's own loop.

use crate::measure::{BenchError, Load, ms};
use crate::prompt;
use std::ops::ControlFlow;
use std::time::Instant;
use wgoose_runtime::{Continuation, Engine, IN_FLIGHT, Outputs, Sampling, Sequence, Start, StateData};
use wgoose_session::sampling::greedy;

/// Tokens that each sequence reads first.
const PROMPT: u32 = 16;

/// What decoding took.
pub(crate) struct Decoded {
    /// Milliseconds of each run.
    pub(crate) ms: Vec<f64>,
    /// Share of the time that the CPU spent encoding steps; absent where tokens are not chosen on the device.
    pub(crate) encode_share: Option<f64>,
}

/// Continues `load.sequences` sequences together, from fresh states, once uncounted and then `load.runs` times.
pub(crate) fn measure(engine: &mut Engine, load: &Load) -> Result<Decoded, BenchError> {
    let (shape, slots) = (*engine.shape(), load.sequences);
    let prompts: Vec<Vec<u32>> = (0..slots as u32)
        .map(|slot| prompt(PROMPT, shape.vocab).iter().map(|t| (t + 31 * slot) % shape.vocab).collect())
        .collect();
    let on_device = engine.can_decode();
    let (mut times, mut encoding) = (Vec::new(), 0.0);
    for run in 0..=load.runs {
        for slot in 0..slots {
            engine.set_state(slot, &StateData::zero(&shape))?;
        }
        let mut logits = read(engine, prompts.iter().map(Vec::as_slice))?;
        let begun = Instant::now();
        if on_device {
            let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
            let max_tokens = load.decode_tokens as u32;
            let all: Vec<Continuation<'_>> = (0..slots)
                .map(|slot| Continuation { slot, sampling, bias: &[], chosen: &[], stops: &[], max_tokens })
                .collect();
            let report =
                engine.decode(Start::Logits(&logits.concat()), &all, IN_FLIGHT, &mut |_| ControlFlow::Continue(()))?;
            encoding += if run > 0 { report.encode_seconds } else { 0.0 };
        } else {
            for _ in 0..load.decode_tokens {
                let tokens = logits.iter().map(|l| greedy(l)).collect::<Result<Vec<u32>, _>>()?;
                logits = read(engine, tokens.iter().map(std::slice::from_ref))?;
            }
        }
        if run > 0 {
            times.push(ms(begun));
        }
    }
    let all: f64 = times.iter().sum();
    Ok(Decoded { ms: times, encode_share: on_device.then_some(encoding * 1e3 / all) })
}

/// The last logits of each sequence.
fn read<'a>(engine: &mut Engine, tokens: impl Iterator<Item = &'a [u32]>) -> Result<Vec<Vec<f32>>, BenchError> {
    let last = |(slot, tokens)| Sequence { slot, tokens, outputs: Outputs::Last };
    Ok(engine.forward(&tokens.enumerate().map(last).collect::<Vec<_>>())?)
}
