//! The last comparison of a plan: with the default, in fresh processes.

use crate::sweep::trials::Trials;
use crate::sweep::{Candidate, SweepError, SweepStep, Timed};
use wgoose_kernels::Plan;
use wgoose_measure::paired::Effort;
use wgoose_measure::result_cache::{TrialError, paired, pool};
use wgoose_measure::scenario::Scenario;

/// Whether a plan passes the gate and, in fresh processes, is slower than the default in nothing that they do. What a
/// start takes is counted: one megakernel more costs tens of milliseconds once, and gains as much with every hundred
/// tokens.
pub(super) fn qualifies(
    trials: &mut Trials<'_>,
    plan: &Plan,
    candidate: &Candidate,
    effort: Effort,
) -> Result<bool, SweepError> {
    if !trials.passes(plan, candidate)? || !trials.passes_extended(plan, candidate)? {
        return Ok(false);
    }
    let processes = trials.ending().processes;
    let (default, each) = (&trials.problem().default, effort.in_each_of(processes as usize));
    let is_short = trials.is_short();
    let problem = trials.problem();
    let is_alike = |scenario: &Scenario| is_short && problem.run_alike([default, plan], *scenario);
    let (alike, running): (Vec<_>, Vec<_>) = trials.options().objective.scenarios().into_iter().partition(is_alike);
    for scenario in alike {
        trials.jobs().alike(plan, scenario, default)?;
        trials.done(SweepStep::Alike(scenario))?;
    }
    if running.is_empty() {
        return Ok(false);
    }
    // What starts take refuses no plan: they come last, and may be left out.
    for scenarios in [running, trials.starts()] {
        let mut all: Vec<(Scenario, [Vec<f64>; 2])> =
            scenarios.into_iter().map(|scenario| (scenario, Default::default())).collect();
        for process in 0..processes {
            for (scenario, samples_ns) in &mut all {
                let each = if scenario.from_start { trials.results().until_the_end(each) } else { each };
                let compared = trials.jobs().confirm([default, plan], *scenario, process, each);
                if scenario.from_start && matches!(compared, Err(TrialError::OutOfTime)) {
                    trials.leave_untried(vec![scenario.to_string()], plan)?;
                    return Ok(true);
                }
                let Ok(new) = trials.reported(compared, candidate, plan)? else { return Ok(false) };
                pool(samples_ns, &new);
                let result = paired(samples_ns, &each.criteria()).map_err(TrialError::from)?;
                let is_slower = !scenario.from_start && result.is_surely_slower();
                if process + 1 == processes || is_slower {
                    let verdict = result.comparison.verdict;
                    trials.done(SweepStep::Tuned(Timed { scenario: *scenario, result, verdict }))?;
                }
                if is_slower {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}
