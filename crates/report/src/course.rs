//! How a search went: the best plan so far against the time that was spent, and the kernel that never changes.

use super::view::View;
use std::collections::HashMap;
use wgoose_measure::derive::Gain;
use wgoose_measure::job::{Job, PlanId};
use wgoose_measure::ledger::Outcome;
use wgoose_measure::objective::Objective;
use wgoose_measure::paired::Effort;
use wgoose_measure::result_cache::paired;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::stats::summary::Summary;

/// How a search went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// Seconds that were spent in all.
    pub spent: f64,
    /// Seconds that the newest sweep was given.
    pub budget: Option<f64>,
    /// One for each scenario in which plans were compared.
    pub progress: Vec<SearchProgress>,
    /// Visits of the control kernel.
    pub control: Vec<ControlVisit>,
}

/// Plans in one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchProgress {
    /// What was timed.
    pub scenario: Scenario,
    /// Every plan that was timed, in order.
    pub attempts: Vec<Attempt>,
    /// When the best plan changed, in seconds, and how many times as fast as the default it was.
    pub best: Vec<(f64, f64)>,
}

/// A plan that was timed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempt {
    /// Seconds that were spent by then.
    pub at: f64,
    /// How many times as fast as the default, chained through the incumbent that it was timed against.
    pub gain: f64,
    /// Whether it was compared in full, and not by a few samples only.
    pub is_compared: bool,
}

/// One visit of the control kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControlVisit {
    /// Seconds that were spent by then.
    pub at: f64,
    /// Its samples, in nanoseconds.
    pub ns: Summary,
}

impl Course {
    /// The last best plan is the derived one, with the gains that the report gives it.
    pub(super) fn of(view: &View<'_>, objective: &Objective, derived: &[Gain]) -> Self {
        let spent = view.trials.iter().map(|trial| view.spent_at(trial)).fold(0.0, f64::max);
        let control = view.ended().filter_map(|trial| match &trial.outcome {
            Outcome::Control(timing) => {
                Some(ControlVisit { at: view.spent_at(trial), ns: Summary::of(&timing.samples_ns)? })
            }
            _ => None,
        });
        Course {
            spent,
            budget: view.session.map(|session| session.budget),
            progress: ending_in(progress(view, objective), spent, derived),
            control: control.collect(),
        }
    }
}

/// The same, with the gains of the derived plan at the end.
fn ending_in(mut progress: Vec<SearchProgress>, spent: f64, derived: &[Gain]) -> Vec<SearchProgress> {
    for own in &mut progress {
        let of_plan = derived.iter().find(|gain| gain.scenario == own.scenario);
        own.best.extend(of_plan.map(|gain| (spent, gain.result.comparison.log_ratio.exp())));
    }
    progress
}

/// Estimates of plans against the default, chained: a comparison with the default itself takes the place of what was
/// chained.
struct Estimates {
    default: PlanId,
    gains: HashMap<(PlanId, Scenario), f64>,
}

impl Estimates {
    fn of(&self, plan: &PlanId, scenario: Scenario) -> Option<f64> {
        if *plan == self.default { Some(0.0) } else { self.gains.get(&(plan.clone(), scenario)).copied() }
    }
}

/// The scenarios of the objective, then others that were timed.
fn progress(view: &View<'_>, objective: &Objective) -> Vec<SearchProgress> {
    let Some(session) = view.session else { return Vec::new() };
    let mut estimates = Estimates { default: session.default.clone(), gains: HashMap::new() };
    let mut attempts: HashMap<Scenario, Vec<Attempt>> = HashMap::new();
    // Each with the estimates of its time: the best plan is known before it is compared with the default itself.
    let mut events: Vec<(f64, Event<'_>)> = Vec::new();
    for trial in view.ended() {
        let Outcome::Pair { samples_ns, .. } = &trial.outcome else { continue };
        if let Job::Screen { plans, scenario }
        | Job::Steps { plans, scenario, .. }
        | Job::Confirm { plans, scenario, .. } = &trial.identity.tried
        {
            let is_compared = !matches!(trial.identity.tried, Job::Screen { .. });
            if let Ok(result) = paired(samples_ns, &Effort::none().criteria()) {
                let event = Event::Timed { plans, scenario: *scenario, gain: result.comparison.log_ratio, is_compared };
                events.push((view.spent_at(trial), event));
            }
        }
    }
    for decision in view.decisions() {
        events.push((view.spent(Some(&decision.session), decision.at), Event::Best(&decision.best)));
    }
    events.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut best: HashMap<Scenario, Vec<(f64, f64)>> = HashMap::new();
    for (at, event) in events {
        match event {
            Event::Timed { plans: [incumbent, candidate], scenario, gain, is_compared } => {
                let Some(known) = estimates.of(incumbent, scenario) else { continue };
                let of = attempts.entry(scenario).or_default();
                of.push(Attempt { at, gain: (known + gain).exp(), is_compared });
                let key = (candidate.clone(), scenario);
                if is_compared || !estimates.gains.contains_key(&key) {
                    estimates.gains.insert(key, known + gain);
                }
            }
            Event::Best(plan) => {
                for scenario in attempts.keys() {
                    if let Some(gain) = estimates.of(plan, *scenario) {
                        best.entry(*scenario).or_default().push((at, gain.exp()));
                    }
                }
            }
        }
    }
    let mut scenarios = objective.scenarios();
    let mut others: Vec<Scenario> = attempts.keys().copied().filter(|s| !scenarios.contains(s)).collect();
    others.sort();
    scenarios.append(&mut others);
    let of = |scenario| {
        let attempts = attempts.remove(&scenario)?;
        Some(SearchProgress { scenario, attempts, best: best.remove(&scenario).unwrap_or_default() })
    };
    scenarios.into_iter().filter_map(of).collect()
}

enum Event<'a> {
    Timed { plans: &'a [PlanId; 2], scenario: Scenario, gain: f64, is_compared: bool },
    Best(&'a PlanId),
}
