//! Plans whose results are independent of the batch, to the bit.

use super::{Fusions, Plan};
use crate::{HandOver, StateFormat};
use wgoose_graph::Target;

/// Rows whose default kernels a batch-invariant plan uses for every pass: for a long prompt no kernel divides its sums
/// by the number of rows.
const INVARIANT_ROWS: u32 = 2048;

impl Plan {
    /// The batch-invariant plan: text, logits, states and hidden states of a sequence have identical bits at every batch
    /// size, at every position in the batch, and however its tokens are split into passes. Every pass has the ops of
    /// prefill, and each kernel adds up in the order of the default kernel for a long prompt, which makes decode slower.
    /// The state is f32: an f16 state is rounded after each pass. The plan's choices are dropped.
    #[must_use]
    pub fn batch_invariant(self) -> Plan {
        Plan {
            fusions: Fusions::all(self.fusions.prefill),
            persistent: None,
            hand_over: HandOver::Barrier,
            state: StateFormat::F32,
            invariant: true,
            choices: Vec::new(),
            evidence: None,
            ..self
        }
    }

    /// Whether it says what [`Plan::batch_invariant`] makes of it.
    pub(super) fn is_invariant_throughout(&self) -> bool {
        let bare = |plan: Plan| Plan { evidence: None, ..plan };
        bare(self.clone()) == self.clone().batch_invariant()
    }

    /// The number of rows whose kernels every pass to that target uses, or kernels with the same order of sums, so that
    /// bits do not depend on the number of rows. `None`: each pass uses the kernels for its own rows. Passes to hidden
    /// states have such a number in every plan.
    pub fn alike(&self, target: Target) -> Option<u32> {
        match target {
            _ if self.invariant => Some(INVARIANT_ROWS),
            Target::Logits => None,
            _ => Some(self.prefill_chunk),
        }
    }
}
