//! The outputs of the ops of a pass.

use super::{Engine, divide};
use crate::{RuntimeError, Sequence, Traced};
use std::ops::ControlFlow;

impl Engine {
    /// As [`Engine::forward`], op by op: `on_value` is shown what every op makes, fused ones as the plan has them, in the
    /// order in which they run. The results and the states are those of [`Engine::forward`] with the same passes, which
    /// on a GPU may be another plan's persistent kernel: its numbers are not looked at here. A break ends the call after the pass at
    /// hand: unless that is the last, no rows are returned, and the states of the sequences are invalidated.
    ///
    /// # Errors
    /// As [`Engine::forward`], and [`RuntimeError::Streamed`] where the weights do not all fit on the device.
    pub fn trace(
        &mut self,
        sequences: &[Sequence<'_>],
        on_value: &mut dyn FnMut(&Traced<'_>) -> ControlFlow<()>,
    ) -> Result<Vec<Vec<f32>>, RuntimeError> {
        self.check_logits(sequences)?;
        let vocab = self.shape().vocab as usize;
        let mut rows = vec![Vec::new(); sequences.len()];
        let mut goes_on = ControlFlow::Continue(());
        for (number, pass) in divide(sequences, self.chunk, self.executor.max_outputs()).into_iter().enumerate() {
            if goes_on.is_break() {
                self.invalidated.extend(sequences.iter().map(|s| s.slot));
                return Ok(vec![Vec::new(); sequences.len()]);
            }
            let batch = self.pack(&pass)?;
            let traced = self.executor.trace(&batch, &mut |value| {
                if goes_on.is_continue() {
                    goes_on = on_value(&Traced { pass: number, ..*value });
                }
            });
            let result = traced.inspect_err(|why| {
                // Nothing has run where it is refused.
                if number > 0 || !matches!(why, RuntimeError::Streamed) {
                    self.invalidated.extend(sequences.iter().map(|s| s.slot));
                }
            })?;
            let mut rest = &result[..];
            for (i, piece) in &pass {
                let (own, others) = rest.split_at(piece.outputs.rows(piece.tokens.len()) * vocab);
                rows[*i].extend_from_slice(own);
                rest = others;
            }
        }
        Ok(rows)
    }
}
