//! A search from its first record to its plan: the strategy finds one, and what comes before and after is everybody's.

use super::error::SweepError;
use super::event::{Candidate, Listener, Note, Timed};
use super::options::SweepOptions;
use super::stages::{self, Worth, incumbent};
use super::task::Task;
use super::trials::Trials;
use crate::seeds::Planted;
use wgoose_kernels::Plan;
use wgoose_measure::problem::Problem;
use wgoose_measure::result_cache::ResultCache;

/// A finished sweep.
#[derive(Debug)]
pub struct Swept {
    /// The plan, with its evidence.
    pub plan: Plan,
    /// Whether that is the plan in use because there was no time to compare it with anything. Its evidence is what it
    /// came with.
    pub is_unjudged: bool,
    /// What its choices are worth, the most valuable first.
    pub worth: Vec<Worth>,
    /// Whether its answers in the gate have the hash of the default's; `None` where either was not looked at.
    pub answers_alike: Option<bool>,
    /// The comparison of a whole plan that looked the best.
    pub best_seen: Option<(Candidate, Timed)>,
    /// Experiments measured now.
    pub measured: usize,
    /// Experiments whose results were in the ledger.
    pub recalled: usize,
}

/// Runs a sweep in a runner.
///
/// # Errors
/// The ledger or the runner fails, nothing right can be run, or the listener breaks; what was measured until then is in
/// the ledger.
pub fn search<'a>(
    problem: &'a Problem,
    options: &'a SweepOptions,
    mut cache: ResultCache<'a>,
    listen: Listener<'a>,
) -> Result<Swept, SweepError> {
    let task = Task { problem, options };
    cache.heed(options.cancel.clone());
    cache.end_at(task.budget());
    cache.begin(task.session(cache.start()))?;
    let trials = &mut Trials::new(task, cache, incumbent::of(task), listen);
    stages::report_broken(trials)?;
    if let Some(doubt) = trials.results().doubt() {
        trials.note(Note::WallClock(doubt))?;
    }
    let planted = Planted::new(&options.seeds, trials.incumbent(), &options.catalogue);
    stages::report_refused(trials, planted.unfit())?;
    incumbent::compare(trials)?;
    let mut found = options.strategy.find(trials, &task.tuner().with_seeds(&planted))?;
    stages::report_refused(trials, planted.refused())?;
    stages::drop_guilty(trials, &mut found.plan)?;
    stages::drop_imprecise(trials, &mut found.plan)?;
    let confirmed = stages::confirm(trials, found)?;
    let unjudged = options.in_use.clone().filter(|_| trials.is_unjudged());
    let (is_unjudged, plan) = (unjudged.is_some(), unjudged.unwrap_or(confirmed));
    stages::report_never_tried(trials, &plan)?;
    let results = trials.results();
    Ok(Swept {
        is_unjudged,
        worth: stages::worth(task, results, &plan),
        answers_alike: stages::answers_alike(results, &plan),
        best_seen: trials.best_seen().cloned(),
        measured: results.measured,
        recalled: results.recalled,
        plan,
    })
}
