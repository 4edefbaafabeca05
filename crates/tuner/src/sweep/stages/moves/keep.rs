//! Whether a plan is the best now: compared with the best and with the default, and right.

use super::fitting::{is_compared_twice, is_gated_at_once};
use super::{Move, Peak};
use crate::sweep::stages::gates::check_default;
use crate::sweep::trials::Trials;
use crate::sweep::{Candidate, Event, SweepError, SweepStep, Timed};
use std::time::Duration;
use wgoose_kernels::Plan;
use wgoose_measure::paired::{Effort, PairedResult};
use wgoose_measure::scenario::Scenario;
use wgoose_measure::stats::sequential::Question;
use wgoose_measure::stats::verdict::Verdict;

/// Compares a plan with the best, then with the default, in the scenario that it must speed up; it is the best then if
/// it is slower in none of the others that it changes, and right.
pub(super) fn keep(
    trials: &mut Trials<'_>,
    peak: &mut Peak,
    plan: Plan,
    made: &Move,
    candidate: Candidate,
) -> Result<Option<f64>, SweepError> {
    if plan.hash() == peak.best.hash() {
        return Ok(None);
    }
    let (best, scenario) = (peak.best.clone(), made.scenario);
    let (problem, default) = (trials.problem(), &trials.problem().default);
    let mut duel = Duel { trials, best: &best, plan: &plan, candidate, timed: Vec::new() };
    let usual = Effort::usual(Duration::ZERO);
    let first = duel.compare(&best, scenario, false, usual.asking(Question::IsFaster))?;
    let Some(first) = first.filter(is_fast) else { return duel.lost() };
    // Other samples decide, and say what the plan is worth; where they take long those of the process that confirms
    // it do.
    let mut worth = first.clone();
    if is_compared_twice(duel.trials, peak, scenario) {
        let second = duel.compare(default, scenario, true, usual)?;
        let Some(second) = second.filter(is_fast) else { return duel.lost() };
        worth = second;
    }
    let scenarios = duel.trials.options().objective.scenarios();
    for other in scenarios.into_iter().filter(|other| *other != scenario) {
        if problem.run_alike([&best, &plan], other) {
            duel.trials.jobs().alike(&plan, other, &best)?;
            continue;
        }
        let result = duel.compare(default, other, false, usual.asking(Question::IsSlower))?;
        if result.is_none_or(|result| result.is_surely_slower()) {
            return duel.lost();
        }
    }
    let Duel { trials, candidate, timed, .. } = duel;
    if !trials.is_gated() {
        check_default(trials)?;
    }
    if is_gated_at_once(trials, peak, trials.looks_at_decode_only(&plan)) {
        if !trials.passes(&plan, &candidate)? {
            return Ok(None);
        }
        peak.right = plan.clone();
    }
    peak.best = plan;
    trials.decide("kept", SweepStep::Compared { candidate, timed }, &peak.best)?;
    trials.tell(Event::Best { scenario, gain: worth.comparison.log_ratio.exp() })?;
    Ok(Some(first.comparison.log_ratio))
}

/// Comparisons of a plan with others.
struct Duel<'t, 'a, 'p> {
    trials: &'t mut Trials<'a>,
    /// The best plan until now.
    best: &'p Plan,
    plan: &'p Plan,
    candidate: Candidate,
    timed: Vec<Timed>,
}

impl Duel<'_, '_, '_> {
    /// A comparison with another plan; `None` if one of them does not run, or the time is over.
    fn compare(
        &mut self,
        other: &Plan,
        scenario: Scenario,
        held_out: bool,
        effort: Effort,
    ) -> Result<Option<PairedResult>, SweepError> {
        let compared = self.trials.jobs().steps([other, self.plan], scenario, held_out, effort);
        let Ok(result) = self.trials.reported(compared, &self.candidate, self.best)? else { return Ok(None) };
        let verdict = if result.is_surely_slower() { Verdict::Slow } else { result.comparison.verdict };
        self.timed.push(Timed { scenario, result: result.clone(), verdict });
        Ok(Some(result))
    }

    /// Says what the plan lost by.
    fn lost(self) -> Result<Option<f64>, SweepError> {
        let Duel { trials, best, candidate, timed, .. } = self;
        if !timed.is_empty() {
            trials.decide("compared", SweepStep::Compared { candidate, timed }, best)?;
        }
        Ok(None)
    }
}

fn is_fast(result: &PairedResult) -> bool {
    result.comparison.verdict == Verdict::Fast
}
