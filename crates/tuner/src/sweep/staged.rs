//! The search by stages.
//!
//! 1. The reference says what is right; the device's default plan must pass the gate.
//! 2. What people run, decoding and prompts of several lengths, decides the layouts of the weights, the prefill chunk and the
//!    fusions, with default kernels.
//! 3. Kernels that can be stages are tuned for each width of workgroups, and for as many as stay resident; they are compared with the
//!    best so far, as persistent kernels and as one dispatch per op. Which forms of the merged step (widths, fusions, layouts) are not far
//!    behind is told by their kernels alone; then whole steps of these are drawn and timed, and what they show says which are drawn next.
//! 4. Other kernels are tuned one kind of op instance at a time, the costliest first, each with a share of the time.
//!
//! In a short time one merged step comes first, while the reference is computed: nothing else gains as much.

use super::strategy::{Found, Strategy};
use super::{Part, Sweep, SweepError};
use crate::seeds::Planted;

/// The search by stages.
#[derive(Debug)]
pub(super) struct Staged;

impl Strategy for Staged {
    fn name(&self) -> &'static str {
        "staged"
    }

    fn find(&self, sweep: &mut Sweep<'_>, planted: &Planted) -> Result<Found, SweepError> {
        let parts = &sweep.options.parts;
        let (has_kernels, has_layouts) = (parts.contains(&Part::Kernels), parts.contains(&Part::Layouts));
        let tuner = sweep.tuner().with_seeds(planted);
        let structure = sweep.structure()?;
        let (structure, mut plan) = if sweep.ends.is_short {
            let mut plan = structure.clone();
            // It passes the gate in the end, or is no plan.
            sweep.persistent(&tuner, &mut plan)?;
            sweep.check_default()?;
            (structure, plan)
        } else {
            sweep.check_default()?;
            let structure = sweep.checked(structure)?;
            sweep.gated = true;
            let mut plan = structure.clone();
            if has_kernels {
                sweep.persistent(&tuner, &mut plan)?;
            }
            (structure, plan)
        };
        sweep.gated = true;
        if has_kernels {
            sweep.kernels(&tuner, &mut plan)?;
            if plan.persistent.is_none() && has_layouts {
                sweep.layouts(&tuner, &mut plan)?;
            }
        }
        Ok(Found { structure, plan })
    }
}
