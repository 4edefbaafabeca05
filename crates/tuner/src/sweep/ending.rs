//! The time that the end of a search takes: what has won passes the gate and is compared with the default plan in fresh
//! processes.

use super::ends::share_of;
use super::task::Task;
use std::collections::BTreeMap;
use std::time::Duration;
use wgoose_measure::job::Job;
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::scenario::Scenario;

/// Fresh processes in which a plan is compared with the default: memory lies elsewhere in each.
const PROCESSES: u32 = 3;

/// The share of the budget that these may take: one is all that a short one has time for.
const CONFIRMED: f64 = 0.5;

/// The share of the budget that starts of processes may take for their first tokens. Where they take more, none is
/// timed.
const STARTS: f64 = 0.12;

/// The time that the end of a search takes.
pub(super) struct Ending {
    /// All but the processes.
    other: Duration,
    /// Each process.
    each: Duration,
    /// Processes in which a plan is confirmed.
    pub(super) processes: u32,
}

impl Ending {
    /// That of a search, by what the longest of such comparisons took until now: one for what kernels are tuned for,
    /// first tokens; and each scenario, in each process.
    pub(super) fn expected(
        task: Task<'_>,
        results: &ResultCache<'_>,
        is_short: bool,
        has_incumbent: bool,
        has_extended_gate: bool,
    ) -> Self {
        let objective = &task.options.objective;
        let (mut screened, mut compared) = (BTreeMap::new(), BTreeMap::new());
        let mut gate = 0.0_f64;
        for (job, cost) in results.took() {
            let learn = |known: &mut BTreeMap<Scenario, f64>, scenario: &Scenario| {
                known.entry(*scenario).and_modify(|known| *known = known.max(cost)).or_insert(cost);
            };
            match job {
                Job::Screen { scenario, .. } => learn(&mut screened, scenario),
                Job::Steps { scenario, .. } | Job::Confirm { scenario, .. } => learn(&mut compared, scenario),
                // The first one waits for the reference.
                Job::Gate { .. } => gate = if gate == 0.0 { cost } else { gate.min(cost) },
                _ => {}
            }
        }
        // The extended one takes about as long.
        let gate = if has_extended_gate { 2.0 * gate } else { gate };
        // A few samples take about half as long as a comparison.
        let screened = |scenario: &Scenario| screened.get(scenario).map(|cost| 2.0 * cost);
        // Of what nothing is known it is guessed that it takes about as long as a process to begin.
        let start = results.start().unwrap_or_default();
        let of = |scenario: &Scenario| {
            let known = compared.get(scenario).copied().or_else(|| screened(scenario));
            known.unwrap_or(start.as_secs_f64())
        };
        let all: f64 = objective.scenarios().iter().map(of).sum();
        let tuned = objective.decodes().then_some(Scenario::DECODE).into_iter();
        let tuned = tuned.chain(objective.prompts().last().copied()).chain(objective.batches());
        let incumbent = if has_incumbent { gate + all } else { 0.0 };
        let together = Duration::from_secs_f64(incumbent + gate + tuned.map(|scenario| of(&scenario)).sum::<f64>());
        // Each process has to begin, too.
        let other = together + starting(results, starts(task, results).len());
        let each = Duration::from_secs_f64(all) + start;
        let fits = other + each * PROCESSES <= share_of(task.budget(), CONFIRMED);
        let processes = if fits || !is_short { PROCESSES } else { 1 };
        Ending { other, each, processes }
    }

    /// All of it.
    pub(super) fn whole(&self) -> Duration {
        self.other + self.each * self.processes
    }
}

/// The scenarios for which processes are started, where that can be timed and does not take what searching needs.
pub(super) fn starts(task: Task<'_>, results: &ResultCache<'_>) -> Vec<Scenario> {
    let starts = task.options.objective.starts();
    let is_cheap = starting(results, starts.len()) <= share_of(task.budget(), STARTS);
    if results.start().is_some() && is_cheap { starts } else { Vec::new() }
}

/// What the first tokens of so many scenarios take: a pair of starts before all that are counted, and two in each
/// process. Each takes half as long again as a process takes to begin: weights are read, too, and the process ends.
fn starting(results: &ResultCache<'_>, scenarios: usize) -> Duration {
    results.start().unwrap_or_default() * (3 * (1 + 2 * PROCESSES) * scenarios as u32)
}
