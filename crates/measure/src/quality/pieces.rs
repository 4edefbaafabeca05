//! The prompts read in pieces: cuts change no answer, and a plan may have other kernels for each number of rows.

use super::{CONTINUATION, PROMPTS, Quality, QualityError, Reference};
use wgoose_kernels::PrecisionClass;
use wgoose_runtime::{CancelToken, Engine, Outputs, Sequence, StateData};

/// Tokens of the passes in which each prompt is read: of the row counts between two choices of a plan (2 to 4, 5 to 16,
/// 17 to 64) the first, the last and one in between.
const PIECES: [&[usize]; PROMPTS.len()] = [&[64, 17], &[42, 5], &[16, 4, 3], &[7, 2]];

impl Reference {
    /// Runs an engine of a class over the prompts, each cut into passes of its own, and compares.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn evaluate_pieces(&self, engine: &mut Engine, class: PrecisionClass) -> Result<Quality, QualityError> {
        let mut logits = vec![Vec::new(); Self::SLOTS];
        for (slot, pieces) in PIECES.into_iter().enumerate() {
            logits[slot] = self.read(engine, slot, pieces)?;
        }
        self.compare(engine, &logits, class)
    }

    /// The same with the longest prompt alone, in two passes, in every way: passes of every number of rows up to its
    /// length. The first that disagrees, or the last.
    ///
    /// # Errors
    /// The device fails; [`wgoose_runtime::RuntimeError::Cancelled`] between two ways.
    pub fn evaluate_every_length(
        &self,
        engine: &mut Engine,
        class: PrecisionClass,
        cancel: &CancelToken,
    ) -> Result<Quality, QualityError> {
        let whole = PROMPTS[0] + CONTINUATION;
        let mut first = 1;
        loop {
            cancel.check()?;
            let mut logits = vec![Vec::new(); Self::SLOTS];
            logits[0] = self.read(engine, 0, &[first, whole - first])?;
            let quality = self.compare(engine, &logits, class)?;
            first += 1;
            if !quality.passed() || 2 * first > whole {
                return Ok(quality);
            }
        }
    }

    /// All rows of logits of a sequence that is read in passes of so many tokens.
    fn read(&self, engine: &mut Engine, slot: usize, pieces: &[usize]) -> Result<Vec<f32>, QualityError> {
        engine.set_state(slot, &StateData::zero(engine.shape()))?;
        let (mut logits, mut rest) = (Vec::new(), &self.sequences[slot][..]);
        for piece in pieces {
            let (tokens, after) = rest.split_at(*piece);
            let sequence = Sequence { slot, tokens, outputs: Outputs::All };
            logits.extend(engine.forward(&[sequence])?.into_iter().flatten());
            rest = after;
        }
        Ok(logits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_fill_the_prompts() {
        assert_eq!(PIECES.map(|pieces| pieces.iter().sum::<usize>()), PROMPTS);
    }
}
