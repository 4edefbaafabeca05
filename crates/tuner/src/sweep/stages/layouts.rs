//! Layouts that default kernels left open, each with kernels tuned for it: some of these run on no other layout.

use crate::kernel_tuning::KernelTuner;
use crate::sweep::trials::Trials;
use crate::sweep::{Candidate, SweepError};
use wgoose_graph::Format;
use wgoose_kernels::Plan;
use wgoose_measure::paired::Effort;

/// Compares a plan with each open layout and kernels for it, until the time for layouts is over.
pub(in crate::sweep) fn layouts(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    open: &[Format],
    plan: &mut Plan,
) -> Result<(), SweepError> {
    for (i, format) in open.iter().copied().enumerate() {
        let mut other = plan.clone();
        other.interleave.insert(format);
        let name = format!("{format} interleaved, with kernels for it");
        let left = trials.left(|ends| ends.layouts) / (open.len() - i) as u32;
        if left.is_zero() {
            trials.leave_untried(vec![name], plan)?;
            continue;
        }
        let task = trials.task();
        let known = task.decode_sites(plan);
        let mut new = task.decode_sites(&other);
        new.retain(|site| known.iter().all(|known| known.key != site.key));
        for (j, site) in new.iter().enumerate() {
            let deadline = trials.spent() + left.mul_f64(0.8) / (new.len() - j) as u32;
            let winner = tuner.tune(site, trials.jobs(), deadline)?.winner;
            winner.into_iter().for_each(|choice| other.adopt(choice));
        }
        let effort = Effort::usual(left / 20);
        let scenarios = trials.options().objective.scenarios();
        trials.challenge(plan, other, &scenarios, effort, Candidate::Change(name))?;
    }
    Ok(())
}
