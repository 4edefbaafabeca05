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
mod ends;
mod event;
mod forms;
mod merged_step;
mod on_device;
mod options;
mod pace;
mod stages;
mod step_model;
mod strategies;
mod survey;

use ends::{Ends, share_of, working};
pub use event::{Candidate, Event, Note, Stage, SweepStep, Timed};
pub use on_device::{survey, sweep};
pub use options::{Part, SweepOptions, UnknownPart};
pub use stages::worth::Worth;
pub use strategies::{Found, STRATEGIES, Strategy, UnknownStrategy, strategy};
pub use survey::time_all;

use crate::kernel_tuning::KernelTuningError;
use crate::seeds::Planted;
use changes::{changes, wins};
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wgoose_graph::Format;
use wgoose_kernels::plan::bindable_fusions;
use wgoose_kernels::{Plan, PlanError};
use wgoose_measure::derive::DeriveError;
use wgoose_measure::ledger::UNTRIED;
use wgoose_measure::ledger::{LedgerError, SessionRecord};
use wgoose_measure::paired::Effort;
use wgoose_measure::problem::Problem;
use wgoose_measure::quality::QualityError;
use wgoose_measure::result_cache::{ResultCache, TrialError};
use wgoose_measure::runner::RunnerError;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::stats::verdict::Verdict;

/// What stops a sweep.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The runner cannot be set up.
    #[error(transparent)]
    Runner(RunnerError),
    /// A trial.
    #[error(transparent)]
    Trial(TrialError),
    /// The plan at the end.
    #[error(transparent)]
    Derive(#[from] DeriveError),
    /// The kernels.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The reference.
    #[error(transparent)]
    Quality(#[from] QualityError),
    /// Tuning kernels.
    #[error(transparent)]
    Kernels(KernelTuningError),
    /// Chunks or sequences that no pass has.
    #[error("{what} {got}: it must be between {least} and {most}")]
    Size {
        /// Of what.
        what: &'static str,
        /// What was asked for.
        got: u32,
        /// The least that makes sense.
        least: u32,
        /// The most.
        most: u32,
    },
    /// The device computes wrong results whatever is chosen.
    #[error("the default plan fails the quality gate on this device: {0}; nothing is tuned on wrong results")]
    Gate(String),
    /// The listener broke it off, or the user. What was measured until then is in the ledger, and another sweep goes on
    /// from there.
    #[error("the search was stopped; run it again to resume from its ledger")]
    Stopped,
}

impl From<RunnerError> for SweepError {
    fn from(error: RunnerError) -> Self {
        match error {
            RunnerError::Interrupted => SweepError::Stopped,
            error => SweepError::Runner(error),
        }
    }
}

impl From<TrialError> for SweepError {
    fn from(error: TrialError) -> Self {
        match error {
            TrialError::Runner(RunnerError::Interrupted) => SweepError::Stopped,
            error => SweepError::Trial(error),
        }
    }
}

impl From<KernelTuningError> for SweepError {
    fn from(error: KernelTuningError) -> Self {
        match error {
            KernelTuningError::Trial(error) => error.into(),
            error => SweepError::Kernels(error),
        }
    }
}

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
    cache.heed(options.cancel.clone());
    cache.end_at(working(options.budget));
    cache.begin(session(problem, options, cache.start()))?;
    let mut sweep = Sweep {
        problem,
        options,
        cache,
        default: problem.default.clone(),
        in_use: stages::incumbent::of(problem, options),
        is_unjudged: false,
        open: Vec::new(),
        ends: Ends::of(problem, options),
        // Where a CPU plays the device the reference was computed first, and a sweep that is broken off early has a
        // plan to show.
        gated: problem.limits.is_cpu,
        gates_are_narrow: false,
        without_op: Vec::new(),
        best_seen: None,
        listen,
    };
    sweep.report_broken()?;
    if let Some(doubt) = sweep.cache.doubt() {
        sweep.note(Note::WallClock(doubt))?;
    }
    let planted = Planted::new(&options.seeds, sweep.in_use.as_ref(), &options.catalogue);
    sweep.refuse_seeds(planted.unfit())?;
    sweep.compare_in_use()?;
    let mut found = options.strategy.find(&mut sweep, &planted)?;
    sweep.refuse_seeds(planted.refused())?;
    sweep.drop_imprecise(&mut found.plan)?;
    let plan = sweep.confirm(found)?;
    let unjudged = options.in_use.clone().filter(|_| sweep.is_unjudged);
    let (is_unjudged, plan) = (unjudged.is_some(), unjudged.unwrap_or(plan));
    let worth = sweep.worth(&plan)?;
    let answers_alike = sweep.answers_alike(&plan);
    sweep.report_never_tried(&plan)?;
    let Sweep { cache, best_seen, .. } = sweep;
    let (measured, recalled) = (cache.measured, cache.recalled);
    Ok(Swept { plan, is_unjudged, worth, answers_alike, best_seen, measured, recalled })
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

/// A search that is under way.
pub struct Sweep<'a> {
    problem: &'a Problem,
    options: &'a SweepOptions,
    cache: ResultCache<'a>,
    default: Plan,
    /// The plan in use, for as long as nothing speaks against it.
    in_use: Option<Plan>,
    /// Whether there was no time to see what speaks against it.
    is_unjudged: bool,
    /// Layouts that default kernels left open.
    open: Vec<Format>,
    ends: Ends,
    /// Whether what wins must pass the gate at once: the reference may still be computed.
    gated: bool,
    /// Whether of a plan that changes nothing but decoding the gate looks at decoding only: where steps are slow, all
    /// the rest would take what a search has.
    gates_are_narrow: bool,
    /// Variants from beside the binary whose op is in no pass of the plan.
    without_op: Vec<String>,
    /// The comparison of a whole plan that looked the best.
    best_seen: Option<(Candidate, Timed)>,
    listen: Listener<'a>,
}

/// How a challenge ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The candidate is the incumbent now.
    Won,
    /// It is wrong, or slower in something.
    Lost,
    /// It is neither.
    Open,
}

impl<'a> Sweep<'a> {
    fn begin(&mut self, stage: Stage, steps: usize) -> Result<(), SweepError> {
        tell(self.listen, Event::Stage { stage, steps })
    }

    fn done(&mut self, step: SweepStep) -> Result<(), SweepError> {
        if let SweepStep::Compared { candidate, timed } = &step {
            for timed in timed {
                let log_ratio = |timed: &Timed| timed.result.comparison.log_ratio;
                if self.best_seen.as_ref().is_none_or(|(_, best)| log_ratio(best) < log_ratio(timed)) {
                    self.best_seen = Some((candidate.clone(), timed.clone()));
                }
            }
        }
        tell(self.listen, Event::Done(step))
    }

    fn note(&mut self, note: Note) -> Result<(), SweepError> {
        tell(self.listen, Event::Note(note))
    }

    /// Says what no time was left for, on the screen and in the ledger.
    fn leave_untried(&mut self, names: Vec<String>, best: &Plan) -> Result<(), SweepError> {
        if names.is_empty() {
            return Ok(());
        }
        self.cache.decide(UNTRIED, names.join(", "), best)?;
        self.note(Note::Untried(names))
    }

    /// When a stage before the last one ends, in time of the budget. The last one has what it takes, but for half of a
    /// budget that is too short for both; kernels have a little in any case.
    fn end(&self, share: f64) -> Duration {
        let budget = working(self.options.budget);
        let kernels = if share < self.ends.kernels { share_of(budget, Ends::KERNELS) } else { Duration::ZERO };
        share_of(budget, share).min(budget - self.confirming().min(budget / 2) - kernels)
    }

    /// What is left until a stage ends.
    fn left(&self, share: f64) -> Duration {
        self.end(share).saturating_sub(self.cache.spent())
    }

    /// Layouts, chunk and fusions that pass the gate: those given, else what wins of those that do.
    fn checked(&mut self, structure: Plan) -> Result<Plan, SweepError> {
        if structure.hash() == self.default.hash() || self.passes(&structure, &Candidate::Structure)? {
            return Ok(structure);
        }
        self.gated = true;
        self.open.clear();
        // What was timed is remembered.
        self.structure()
    }

    /// Layouts, chunk and fusions, by whole steps with default kernels.
    fn structure(&mut self) -> Result<Plan, SweepError> {
        let mut best = self.default.clone();
        let fusions = bindable_fusions(&self.problem.shape, &self.problem.limits);
        let options = self.options;
        let decided = (&*options.chunks, options.allowed);
        let mut changes = changes(&best, &self.problem.layouts(), &fusions, decided, &options.objective);
        changes.retain(|change| options.parts.contains(&change.part));
        self.begin(Stage::Structure, changes.len())?;
        let deadline = self.end(self.ends.structure);
        let comparisons: usize = changes.iter().map(|c| c.scenarios.len()).sum();
        // Most changes lose in their first comparison, and those that win have it twice.
        let effort = Effort::usual(self.left(self.ends.structure) / (2 * comparisons.max(1)) as u32);
        let mut untried = Vec::new();
        for change in changes {
            if self.cache.spent() >= deadline {
                untried.push(change.name);
                continue;
            }
            let mut candidate = best.clone();
            (change.apply)(&mut candidate);
            let name = Candidate::Change(change.name);
            if self.is_screened_out([&best, &candidate], change.scenarios[0], &name)? {
                continue;
            }
            let ended = self.challenge(&mut best, candidate, &change.scenarios, effort, name)?;
            self.open.extend(change.interleaves.filter(|_| ended == Ended::Open));
        }
        self.leave_untried(untried, &best)?;
        Ok(best)
    }

    /// Lets a candidate take the incumbent's place if it passes the gate and is faster twice in one of the scenarios,
    /// and slower in none.
    fn challenge(
        &mut self,
        incumbent: &mut Plan,
        plan: Plan,
        scenarios: &[Scenario],
        effort: Effort,
        candidate: Candidate,
    ) -> Result<Ended, SweepError> {
        let pair = [&*incumbent, &plan];
        let mut timed = Vec::new();
        for scenario in scenarios.iter().copied() {
            let has_won = timed.iter().any(|timed: &Timed| timed.verdict.replaces_incumbent());
            let compared = match self.cache.steps(pair, scenario, false, effort) {
                // The second comparison decides, on samples that did not choose; where it has won, losing is all that
                // is left to do. In a short time that of the process that confirms it is the second.
                Ok(first) if first.comparison.verdict == Verdict::Fast && !has_won && !self.ends.is_short => {
                    self.cache.steps(pair, scenario, true, effort)
                }
                compared => compared,
            };
            let result = match compared {
                Ok(result) => result,
                Err(TrialError::Failed(reason)) => {
                    self.done(SweepStep::NotRun { candidate, why: reason.to_string() })?;
                    return Ok(Ended::Lost);
                }
                Err(TrialError::OutOfTime) => {
                    self.leave_untried(vec![candidate.to_string()], incumbent)?;
                    return Ok(Ended::Open);
                }
                Err(error) => return Err(error.into()),
            };
            let verdict = if result.is_surely_slower() { Verdict::Slow } else { result.comparison.verdict };
            timed.push(Timed { scenario, result, verdict });
            if verdict == Verdict::Slow {
                // It has lost.
                break;
            }
        }
        let verdicts: Vec<Verdict> = timed.iter().map(|timed| timed.verdict).collect();
        // Most candidates lose, and need not be right.
        let ended = match wins(&verdicts) {
            true if self.gated && !self.passes(&plan, &candidate)? => return Ok(Ended::Lost),
            true => Ended::Won,
            false if verdicts.contains(&Verdict::Slow) => Ended::Lost,
            false => Ended::Open,
        };
        if ended == Ended::Won {
            *incumbent = plan;
        }
        let step = SweepStep::Compared { candidate, timed };
        let best = incumbent.clone();
        self.cache.decide("compared", format!("{step}"), &best)?;
        self.done(step)?;
        Ok(ended)
    }

    /// Whether a few samples say that a candidate is so slow that a comparison would only say it again. Where steps
    /// take as long as on a CPU, a comparison takes no more samples.
    fn is_screened_out(
        &mut self,
        pair: [&Plan; 2],
        scenario: Scenario,
        candidate: &Candidate,
    ) -> Result<bool, SweepError> {
        if self.problem.limits.is_cpu {
            return Ok(false);
        }
        match self.cache.screen(pair, scenario) {
            Ok(screened) if screened.has_lost() => {
                let (candidate, gain) = (candidate.clone(), screened.log_ratio.exp());
                self.done(SweepStep::Screened { candidate, scenario, gain })?;
                Ok(true)
            }
            Ok(_) => Ok(false),
            Err(TrialError::Failed(reason)) => {
                self.done(SweepStep::NotRun { candidate: candidate.clone(), why: reason.to_string() })?;
                Ok(true)
            }
            Err(TrialError::OutOfTime) => {
                self.leave_untried(vec![candidate.to_string()], pair[0])?;
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }
}
