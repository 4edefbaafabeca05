//! A text on the GPU against the references of its ops, pass by pass.

use super::OpError;
use crate::{Batch, Executor, GpuExecutor, OnPass, Outputs, RuntimeError, Sequence};
use std::fmt;
use std::ops::Range;

/// Where a text goes wrong: the first op beyond its tolerance.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence {
    /// The pass, from 0.
    pub pass: usize,
    /// The tokens of the pass, by their index in the text.
    pub tokens: Range<usize>,
    /// The op.
    pub error: OpError,
}

impl fmt::Display for Divergence {
    /// `pass 0 (tokens 0 to 63): layer 1, att.key ...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Divergence { pass, tokens: Range { start, end }, error } = self;
        write!(f, "pass {pass} (tokens {start} to {}): {error}", end - 1)
    }
}

/// What holding every op against its reference has shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Ops within their tolerances, until the first that is not.
    pub ops: usize,
    /// Which of these came nearest to its own.
    pub nearest: Option<OpError>,
    /// The first that is not within its own.
    pub divergence: Option<Divergence>,
}

impl GpuExecutor {
    /// Reads a text in slot 0, in passes of the plan's chunk, and compares as [`GpuExecutor::compare`] until an op goes
    /// wrong. `on_pass` is also told before the first pass.
    ///
    /// # Errors
    /// As [`GpuExecutor::compare`]; a token outside the vocabulary.
    pub fn compare_text(&mut self, tokens: &[u32], on_pass: OnPass<'_>) -> Result<Comparison, RuntimeError> {
        let (vocab, chunk) = (self.shape().vocab, self.plan().prefill_chunk.max(1) as usize);
        let used = |e: &OpError| e.error / e.tolerance;
        let mut comparison = Comparison::default();
        for (pass, piece) in tokens.chunks(chunk).enumerate() {
            let first = pass * chunk;
            if on_pass(first).is_break() {
                break;
            }
            let batch = Batch::pack(&[Sequence { slot: 0, tokens: piece, outputs: Outputs::All }], vocab, 1)?;
            for error in self.compare(&batch)? {
                if !error.passed() {
                    comparison.divergence = Some(Divergence { pass, tokens: first..first + piece.len(), error });
                    return Ok(comparison);
                }
                comparison.ops += 1;
                if comparison.nearest.as_ref().is_none_or(|nearest| used(&error) > used(nearest)) {
                    comparison.nearest = Some(error);
                }
            }
        }
        Ok(comparison)
    }
}
