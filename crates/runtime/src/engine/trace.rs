//! What the ops of a pass make.

use super::Engine;
use crate::{RuntimeError, Sequence, Traced};

impl Engine {
    /// As [`Engine::forward`], op by op: `on_value` is shown what every op makes, fused ones as the plan has them, in the
    /// order in which they run. The results and the states are those of [`Engine::forward`] with the same passes, which
    /// on a GPU may be another plan's persistent kernel: its numbers are not looked at here.
    ///
    /// # Errors
    /// As [`Engine::forward`], and [`RuntimeError::Streamed`] where the weights do not all fit on the device.
    pub fn trace(
        &mut self,
        sequences: &[Sequence<'_>],
        on_value: &mut dyn FnMut(&Traced<'_>),
    ) -> Result<Vec<Vec<f32>>, RuntimeError> {
        let mut passes = 0..;
        self.forward_by(sequences, &mut |executor, batch| {
            let pass = passes.next().unwrap_or_default();
            executor.trace(batch, &mut |value| on_value(&Traced { pass, ..*value }))
        })
    }
}
