//! The search by stages.
//!
//! 1. The reference says what is right; the device's default plan must pass the gate.
//! 2. Decode and prefill of several lengths decide the layouts of the weights, the prefill chunk and the fusions, with
//!    default kernels.
//! 3. Kernels that can be phases of a megakernel are tuned for each width of workgroups, and for as many as stay
//!    resident; they are compared with the incumbent, as a megakernel and as one dispatch per op. The times of kernels
//!    alone exclude forms of the megakernel (widths, fusions, layouts) that are far behind; of the others whole steps
//!    are drawn and timed, and the step model says which are drawn next.
//! 4. Other kernels are tuned one kind of op instance at a time, the costliest first, each with a share of the time.
//!
//! Where whole steps are slow none of this pays, and [`Incremental`] searches instead.
//!
//! In a short time all of this comes before the reference is waited for, and one merged step before all else: nothing
//! gains as much.

use super::incremental::Incremental;
use super::{Found, Strategy};
use crate::seeds::Planted;
use crate::sweep::{Part, Sweep, SweepError};
use wgoose_measure::scenario::Scenario;

/// The search by stages.
#[derive(Debug)]
pub(in crate::sweep) struct Staged;

impl Strategy for Staged {
    fn name(&self) -> &'static str {
        "staged"
    }

    fn find(&self, sweep: &mut Sweep<'_>, planted: &Planted) -> Result<Found, SweepError> {
        let tuner = sweep.tuner().with_seeds(planted);
        if sweep.is_slow(&tuner)? {
            return Incremental.find(sweep, planted);
        }
        let parts = &sweep.options.parts;
        let (has_kernels, has_layouts) = (parts.contains(&Part::Kernels), parts.contains(&Part::Layouts));
        // What is found before the default plan passed the gate passes it in the end, or is no plan.
        let is_late = sweep.ends.is_short && sweep.in_use.is_none();
        let mut structure = sweep.structure()?;
        if !is_late {
            sweep.check_default()?;
            structure = sweep.checked(structure)?;
            sweep.gated = true;
        }
        let mut plan = structure.clone();
        if has_kernels {
            sweep.persistent(&tuner, &mut plan)?;
            sweep.kernels(&tuner, &mut plan)?;
            if plan.persistent.is_none() && has_layouts {
                sweep.layouts(&tuner, &mut plan)?;
            }
        }
        if is_late {
            sweep.check_default()?;
            sweep.gated = true;
        }
        let objective = &sweep.options.objective;
        let decode = objective.decodes().then_some(Scenario::DECODE);
        let longest = objective.prompts().last().copied();
        let alone = decode.into_iter().chain(longest).chain(objective.batches()).collect();
        Ok(Found { structure, plan, alone })
    }
}
