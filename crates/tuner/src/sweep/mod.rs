//! The sweep: from a device and a model to a plan.
//!
//! A [`Strategy`] decides what is tried, and in which order; it sees outcomes and the time spent, and no device. The
//! plan that it finds passes the gate and is compared with the device's default plan in all scenarios, in three fresh
//! processes, and by the first tokens of others. Where time is short one process compares them, and prefill with the
//! same kernels in both plans is left out. Choices that are not faster leave the default kernels in place; a plan that
//! is slower in any scenario of a process is dropped.
//!
//! There is one budget, in wall seconds since the command began: each stage must end at its share of it.

mod changes;
mod ending;
mod ends;
mod error;
mod event;
mod forms;
mod merged_step;
mod on_device;
mod options;
mod pace;
mod stages;
mod step_model;
mod strategies;
mod strategy;
mod survey;
mod task;
mod trials;

pub use error::SweepError;
pub use event::{Candidate, Event, Note, Stage, SweepStep, Timed};
pub use on_device::{survey, sweep};
pub use options::{Part, SweepOptions, UnknownPart};
pub use stages::Worth;
pub use strategies::{STRATEGIES, UnknownStrategy, strategy};
pub use strategy::{Found, Strategy};
pub use survey::time_all;
pub use trials::Trials;

use crate::seeds::Planted;
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use task::Task;
use wgoose_kernels::Plan;
use wgoose_measure::ledger::SessionRecord;
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

/// Tells the caller what happens; the sweep ends with [`SweepError::Stopped`] where it breaks.
pub type Listener<'a> = &'a mut dyn FnMut(Event) -> ControlFlow<()>;

fn tell(listen: Listener<'_>, event: Event) -> Result<(), SweepError> {
    if listen(event).is_break() { Err(SweepError::Stopped) } else { Ok(()) }
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
    cache.begin(session(problem, options, cache.start()))?;
    let trials = &mut Trials::new(task, cache, stages::incumbent(task), listen);
    stages::report_broken(trials)?;
    if let Some(doubt) = trials.results().doubt() {
        trials.note(Note::WallClock(doubt))?;
    }
    let planted = Planted::new(&options.seeds, trials.incumbent(), &options.catalogue);
    stages::report_refused(trials, planted.unfit())?;
    stages::compare_incumbent(trials)?;
    let mut found = options.strategy.find(trials, &task.tuner().with_seeds(&planted))?;
    stages::report_refused(trials, planted.refused())?;
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

/// What is known at the beginning.
fn session(problem: &Problem, options: &SweepOptions, start: Option<Duration>) -> SessionRecord {
    SessionRecord {
        at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        device: problem.default.device.clone(),
        limits: Box::new(problem.limits.clone()),
        model: problem.model.clone(),
        shape: problem.shape,
        default: wgoose_measure::job::PlanId::of(&problem.default),
        budget: options.budget.as_secs_f64(),
        start: start.map(|start| start.as_secs_f64()),
    }
}
