//! Makes a move: its change, kernels for it, and the comparison.

use super::keep::keep;
use super::kernels::{adopt_known, tune};
use super::sites::{new_sites, sites};
use super::{Move, Peak, What};
use crate::kernel_tuning::KernelTuner;
use crate::sweep::trials::Trials;
use crate::sweep::{Event, SweepError, SweepStep};
use std::time::Duration;

/// Kernels that gain less by their own times are not compared yet: others beside them may make the comparison worth its
/// time.
const WORTH_COMPARING: f64 = 0.03;

/// Makes a move, with so many seconds for kernels: the logarithm of how many times as fast its scenario became, if the
/// plan is the best now.
pub(in crate::sweep) fn make(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    peak: &mut Peak,
    made: &Move,
    tuning: f64,
) -> Result<Option<f64>, SweepError> {
    let time = Duration::from_secs_f64(tuning.max(0.0));
    let candidate = made.candidate();
    trials.tell(Event::Trying(candidate.clone()))?;
    let task = trials.task();
    let mut plan = made.changed(task, &peak.best);
    if let What::Known(known) = &made.what {
        adopt_known(trials, tuner, &mut plan, known, made.scenario)?;
        return keep(trials, peak, plan, made, candidate);
    }
    let is_of_kernels = made.is_of_kernels();
    let sites = match is_of_kernels {
        true => sites(task, &plan, made.scenario),
        false => new_sites(task, &peak.best, &plan, made.scenario),
    };
    let has_kernels = !time.is_zero() && !sites.is_empty();
    let predicted = if has_kernels { tune(trials, tuner, &mut plan, sites, made.scenario, time)? } else { 0.0 };
    if is_of_kernels && predicted < WORTH_COMPARING {
        let why = format!("x{:.2} by its kernels alone", predicted.exp());
        trials.done(SweepStep::Unpromising { candidate, why })?;
        return Ok(None);
    }
    keep(trials, peak, plan, made, candidate)
}
