//! Models whose arithmetic breaks: a weight that is NaN, activations beyond f32 or f16.

use super::Engine;
use crate::{Outputs, RuntimeError, Sequence, Traced};
use std::fmt;
use std::ops::ControlFlow;

/// The first op of a pass that makes NaN or an infinity.
#[derive(Clone, Debug, PartialEq)]
pub struct NotFinite {
    /// What it makes.
    pub value: f32,
    /// The op's name in its layer.
    pub name: String,
    /// The op.
    pub op: &'static str,
    /// Its layer, from 0; `None` before the first and behind the last.
    pub layer: Option<u32>,
}

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layer = self.layer.map(|layer| format!(" of layer {layer}")).unwrap_or_default();
        write!(f, "'{}' ({}){layer} is the first op to make such a number", self.name, self.op)
    }
}

impl Engine {
    /// The first op that makes NaN or an infinity as a slot reads tokens; `None` where no op of a trace does, as a
    /// persistent kernel may. The state of the slot is of no use afterwards.
    ///
    /// # Errors
    /// As [`Engine::trace`].
    pub fn first_not_finite(&mut self, slot: usize, tokens: &[u32]) -> Result<Option<NotFinite>, RuntimeError> {
        let mut found = None;
        let mut look = |value: &Traced<'_>| {
            if let Some(broken) = value.values.iter().copied().find(is_broken) {
                found =
                    Some(NotFinite { value: broken, name: value.name.to_owned(), op: value.op, layer: value.layer });
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        self.trace(&[Sequence { slot, tokens, outputs: Outputs::All }], &mut look)?;
        Ok(found)
    }
}

/// Whether an op has made no finite number. One that it has left out is all ones, as f32 or as f16.
fn is_broken(x: &f32) -> bool {
    !x.is_finite() && ![0xffff_ffff, 0xffff_e000].contains(&x.to_bits())
}
