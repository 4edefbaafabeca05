//! Models whose arithmetic breaks: a weight that is NaN, activations beyond f32 or f16. No result of theirs is given out.

use crate::{Session, SessionError};
use std::ops::ControlFlow;
use wgoose_runtime::{Engine, Outputs, RuntimeError, Sequence, Traced};

impl Session {
    /// Refuses values that were made of these tokens if one of them is NaN or infinite.
    ///
    /// # Errors
    /// One is; the error names the op.
    pub(crate) fn check_finite(&mut self, tokens: &[u32], values: &[f32]) -> Result<(), SessionError> {
        match values.iter().find(|x| !x.is_finite()) {
            None => Ok(()),
            Some(value) => Err(SessionError::NotFinite { value: *value, found: self.breaking_op(tokens) }),
        }
    }

    /// The first op that makes such a number of these tokens, in a sequence of its own, as people call it; `None` where no op does,
    /// since the state made the difference, or where there is no memory for it.
    fn breaking_op(&self, tokens: &[u32]) -> Option<String> {
        let mut found = None;
        let mut look = |value: &Traced<'_>| {
            if value.values.iter().any(is_broken) {
                let layer = value.layer.map(|layer| format!(" of layer {layer}")).unwrap_or_default();
                found = Some(format!("'{}' ({}){layer} is the first op to make such a number", value.name, value.op));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        trace(&mut self.engine.fork().ok()?, tokens, &mut look).ok()?;
        found
    }
}

fn trace(
    engine: &mut Engine,
    tokens: &[u32],
    look: &mut dyn FnMut(&Traced<'_>) -> ControlFlow<()>,
) -> Result<(), RuntimeError> {
    engine.trace(&[Sequence { slot: 0, tokens, outputs: Outputs::Last }], look).map(drop)
}

/// Whether an op has made no finite number. One that it has left out is all ones, as f32 or as f16.
fn is_broken(x: &f32) -> bool {
    !x.is_finite() && ![0xffff_ffff, 0xffff_e000].contains(&x.to_bits())
}
