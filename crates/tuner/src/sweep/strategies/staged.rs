//! The search by stages.
//!
//! 1. The reference says what is right; the device's default plan must pass the gate.
//! 2. Decode and prefill of several lengths decide the layouts of the weights, the prefill chunk and the fusions, with
//!    default kernels.
//! 3. Kernels that can be phases of a megakernel are tuned for each width of workgroups, and for as many as stay
//!    resident; they are compared with the best plan, as a megakernel and as one dispatch per op. The times of kernels
//!    alone exclude forms of the megakernel (widths, fusions, layouts) that are far behind; of the others whole steps
//!    are drawn and timed, and the step model says which are drawn next.
//! 4. Other kernels are tuned one kind of op instance at a time, the costliest first, each with a share of the time.
//!
//! Where whole steps are slow none of this pays, and [`Incremental`] searches instead.
//!
//! In a short time all of this comes before the reference is waited for, and one megakernel before all else: nothing
//! gains as much.

use super::incremental::Incremental;
use crate::kernel_tuning::KernelTuner;
use crate::sweep::pace::is_slow;
use crate::sweep::stages::{check_default, checked, kernels, layouts, megakernel, structure};
use crate::sweep::strategy::{Found, Strategy};
use crate::sweep::trials::Trials;
use crate::sweep::{Part, SweepError};
use wgoose_measure::scenario::Scenario;

/// The search by stages.
#[derive(Debug)]
pub(super) struct Staged;

impl Strategy for Staged {
    fn name(&self) -> &'static str {
        "staged"
    }

    fn find(&self, trials: &mut Trials<'_>, tuner: &KernelTuner<'_>) -> Result<Found, SweepError> {
        if is_slow(trials, tuner)? {
            return Incremental.find(trials, tuner);
        }
        let task = trials.task();
        // What is found before the default plan passed the gate passes it in the end, or is no plan.
        let is_late = trials.is_short() && trials.incumbent().is_none();
        let mut decided = structure(trials)?;
        if !is_late {
            check_default(trials)?;
            decided = checked(trials, decided)?;
        }
        let mut plan = decided.plan.clone();
        let mut without_op = Vec::new();
        if task.decides(Part::Kernels) {
            megakernel(trials, tuner, &mut plan)?;
            without_op = kernels(trials, tuner, &mut plan)?;
            if plan.persistent.is_none() && task.decides(Part::Layouts) {
                layouts(trials, tuner, &decided.open, &mut plan)?;
            }
        }
        if is_late {
            check_default(trials)?;
        }
        let objective = &task.options.objective;
        let decode = objective.decodes().then_some(Scenario::DECODE);
        let longest = objective.prompts().last().copied();
        let alone = decode.into_iter().chain(longest).chain(objective.batches()).collect();
        Ok(Found { structure: decided.plan, plan, alone, without_op })
    }
}
