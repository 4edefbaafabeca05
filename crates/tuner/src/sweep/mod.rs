//! The sweep: from a device and a model to a plan.
//!
//! 1. The reference says what is right; the device's default plan must pass the gate.
//! 2. What people run, decoding and prompts of several lengths, decides the layouts of the weights, the prefill chunk and the
//!    fusions, with default kernels.
//! 3. Kernels are tuned one kind of op instance at a time, the costliest first, each with a share of the time.
//! 4. Kernels that can be stages are tuned for as many workgroups as stay resident; they are compared with the best so far,
//!    as one dispatch per op and as persistent kernels.
//! 5. The plan made of the winners passes the gate and is compared with the default in all of that; where it is not faster, the
//!    default kernels stay, and where it is slower anywhere, the default plan.
//!
//! There is one budget, in wall seconds since the command began: each stage must end at its share of it.

mod confirm;
mod event;
mod kernels;
mod options;
mod persistent;
mod problem;

pub use event::{Candidate, Event, Note, Stage, Step, Timed};
pub use options::SweepOptions;
pub use problem::Problem;

use crate::derive::DeriveError;
use crate::kernel_tuning::{KernelTuner, KernelTuningError};
use crate::lab::{GpuLab, LabError};
use crate::ledger::{Cause, Ledger, LedgerError, Reason, Session};
use crate::memo::{Memo, TrialError};
use crate::paired::Effort;
use crate::quality::{QualityError, Reference};
use crate::scenario::Scenario;
use crate::space::Scope;
use crate::stats::verdict::Verdict;
use crate::structure::{changes, wins};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wgoose_graph::Format;
use wgoose_kernels::plan::bindable_fusions;
use wgoose_kernels::{Plan, PlanError, Precision, StateFormat};
use wgoose_loader::Model;
use wgoose_runtime::Device;

/// What stops a sweep.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The lab cannot be set up.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A trial.
    #[error(transparent)]
    Trial(#[from] TrialError),
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
    Kernels(#[from] KernelTuningError),
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
    /// The listener broke it off. What was measured until then is in the ledger, and another sweep goes on from there.
    #[error("the sweep was stopped; it goes on from its ledger when it is run again")]
    Stopped,
}

/// A finished sweep.
#[derive(Debug)]
pub struct Swept {
    /// The plan, with its evidence.
    pub plan: Plan,
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

/// Runs a sweep.
///
/// # Errors
/// The ledger or the device fails, nothing right can be run, or the listener breaks; what was measured until then is in the
/// ledger.
pub fn sweep(
    device: &Arc<Device>,
    model: &Arc<Model>,
    options: &SweepOptions,
    listen: Listener<'_>,
) -> Result<Swept, SweepError> {
    let asked = options.chunks.iter().map(|n| ("chunk", *n, 1, 4096));
    for (what, got, least, most) in asked {
        if !(least..=most).contains(&got) {
            return Err(SweepError::Size { what, got, least, most });
        }
    }
    let mut ledger = Ledger::open(&options.ledger)?;
    for notice in ledger.take_notices() {
        tell(listen, Event::Note(Note::Ledger(notice)))?;
    }
    tell(listen, Event::Stage { stage: Stage::Reference, steps: 1 })?;
    let folder = options.ledger.parent().map(PathBuf::from).unwrap_or_default();
    let reference = Reference::cached(model, &folder)?;
    let problem = Problem::of(device, model, &reference);
    let mut lab = GpuLab::new(device, model, &problem.default, (&options.catalogue, reference), options.begun)?;
    let memo = Memo::new(ledger, problem.default.device.clone(), Some(problem.model.clone()), &mut lab);
    search(&problem, options, memo, listen)
}

/// Runs a sweep in a lab.
///
/// # Errors
/// The ledger or the lab fails, nothing right can be run, or the listener breaks; what was measured until then is in the
/// ledger.
pub fn search<'a>(
    problem: &'a Problem,
    options: &'a SweepOptions,
    mut memo: Memo<'a>,
    listen: Listener<'a>,
) -> Result<Swept, SweepError> {
    memo.begin(Session {
        at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        device: problem.default.device.clone(),
        limits: Box::new(problem.limits.clone()),
        model: problem.model.clone(),
        shape: problem.shape,
        default: crate::job::PlanId::of(&problem.default),
        budget: options.budget.as_secs_f64(),
    })?;
    let gate = memo.gate(&problem.default)?.map_err(|reason| SweepError::Gate(reason.to_string()))?;
    if !gate.passed {
        return Err(SweepError::Gate(gate.detail));
    }
    let hash = gate.quality_hash.unwrap_or_default();
    tell(listen, Event::Done(Step::Reference { hash, detail: gate.detail }))?;

    let mut sweep = Sweep { problem, options, memo, default: problem.default.clone(), open: Vec::new(), listen };
    sweep.report_broken()?;
    if let Some(doubt) = sweep.memo.doubt() {
        sweep.note(Note::WallClock(doubt))?;
    }
    let structure = sweep.structure()?;
    let mut plan = structure.clone();
    let tuner = sweep.tuner();
    sweep.kernels(&tuner, &mut plan)?;
    sweep.layouts(&tuner, &mut plan)?;
    let scope = Scope { allowed: sweep.drop_imprecise(&mut plan)?, ..tuner.scope };
    sweep.persistent(&KernelTuner { scope, ..tuner }, &mut plan)?;
    let plan = sweep.confirm(&structure, plan)?;
    Ok(Swept { plan, measured: sweep.memo.measured, recalled: sweep.memo.recalled })
}

/// The share of the budget at which a stage ends.
mod ends {
    pub(super) const STRUCTURE: f64 = 0.25;
    pub(super) const KERNELS: f64 = 0.42;
    pub(super) const LAYOUTS: f64 = 0.5;
    pub(super) const STAGES: f64 = 0.7;
    pub(super) const MERGED: f64 = 0.9;
    pub(super) const CONFIRM: f64 = 1.0;
}

struct Sweep<'a> {
    problem: &'a Problem,
    options: &'a SweepOptions,
    memo: Memo<'a>,
    default: Plan,
    /// Layouts that default kernels left open.
    open: Vec<Format>,
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

    fn done(&mut self, step: Step) -> Result<(), SweepError> {
        tell(self.listen, Event::Done(step))
    }

    fn note(&mut self, note: Note) -> Result<(), SweepError> {
        tell(self.listen, Event::Note(note))
    }

    /// When a stage ends, in time of the budget.
    fn end(&self, share: f64) -> Duration {
        self.options.budget.mul_f64(share)
    }

    /// What is left until a stage ends.
    fn left(&self, share: f64) -> Duration {
        self.end(share).saturating_sub(self.memo.spent())
    }

    /// Records the files that give no variant, and says so.
    fn report_broken(&mut self) -> Result<(), SweepError> {
        for error in self.options.catalogue.broken() {
            let reason = Reason { cause: Cause::Compile, text: error.to_string() };
            self.memo.refuse(None, &error.path, [0, 0], reason)?;
            self.note(Note::BrokenFile(error.clone()))?;
        }
        Ok(())
    }

    /// Layouts, chunk and fusions, by whole steps with default kernels.
    fn structure(&mut self) -> Result<Plan, SweepError> {
        let mut best = self.default.clone();
        let fusions = bindable_fusions(&self.problem.shape, &self.problem.limits);
        let changes = changes(&best, &self.problem.layouts(), &fusions, &self.options.chunks, &self.options.objective);
        self.begin(Stage::Structure, changes.len())?;
        let deadline = self.end(ends::STRUCTURE);
        let comparisons: usize = changes.iter().map(|c| c.scenarios.len()).sum();
        // Most changes lose in their first comparison, and those that win have it twice.
        let effort = Effort::usual(self.left(ends::STRUCTURE) / (2 * comparisons.max(1)) as u32);
        let mut untried = Vec::new();
        for change in changes {
            if self.memo.spent() >= deadline {
                untried.push(change.name);
                continue;
            }
            let mut candidate = best.clone();
            (change.apply)(&mut candidate);
            let name = Candidate::Change(change.name);
            let ended = self.challenge(&mut best, candidate, &change.scenarios, effort, name)?;
            self.open.extend(change.interleaves.filter(|_| ended == Ended::Open));
        }
        if !untried.is_empty() {
            self.note(Note::Untried(untried))?;
        }
        Ok(best)
    }

    /// Lets a candidate take the incumbent's place if it passes the gate and is faster twice in one of the scenarios, and
    /// slower in none.
    fn challenge(
        &mut self,
        incumbent: &mut Plan,
        plan: Plan,
        scenarios: &[Scenario],
        effort: Effort,
        candidate: Candidate,
    ) -> Result<Ended, SweepError> {
        match self.memo.gate(&plan)? {
            Ok(gate) if gate.passed => {}
            Ok(gate) => {
                self.done(Step::Wrong { candidate, detail: gate.detail })?;
                return Ok(Ended::Lost);
            }
            Err(reason) => {
                self.done(Step::NotRun { candidate, why: reason.to_string() })?;
                return Ok(Ended::Lost);
            }
        }
        let pair = [&*incumbent, &plan];
        let mut timed = Vec::new();
        for scenario in scenarios.iter().copied() {
            let compared = match self.memo.steps(pair, scenario, false, effort)? {
                // The second comparison decides, on samples that did not choose.
                Ok(first) if first.comparison.verdict == Verdict::Fast => {
                    self.memo.steps(pair, scenario, true, effort)?
                }
                compared => compared,
            };
            let result = match compared {
                Ok(result) => result,
                Err(reason) => {
                    self.done(Step::NotRun { candidate, why: reason.to_string() })?;
                    return Ok(Ended::Lost);
                }
            };
            let verdict = if result.is_surely_slower() { Verdict::Slow } else { result.comparison.verdict };
            timed.push(Timed { scenario, result, verdict });
            if verdict == Verdict::Slow {
                // It has lost.
                break;
            }
        }
        let verdicts: Vec<Verdict> = timed.iter().map(|timed| timed.verdict).collect();
        let ended = match wins(&verdicts) {
            true => Ended::Won,
            false if verdicts.contains(&Verdict::Slow) => Ended::Lost,
            false => Ended::Open,
        };
        if ended == Ended::Won {
            *incumbent = plan;
        }
        let step = Step::Compared { candidate, timed };
        let best = incumbent.clone();
        self.memo.decide("compared", format!("{step}"), &best)?;
        self.done(step)?;
        Ok(ended)
    }

    /// Takes out what rounds too much for this model, the least precise first, so that the other kernels are still compared;
    /// the least precise arithmetic that is left to try.
    fn drop_imprecise(&mut self, plan: &mut Plan) -> Result<Precision, SweepError> {
        let (catalogue, mut allowed) = (Arc::clone(&self.options.catalogue), self.options.allowed);
        while plan.least_precise(&catalogue) > Precision::F32 {
            let detail = match self.memo.gate(plan)? {
                Ok(gate) if gate.passed => break,
                Ok(gate) => gate.detail,
                Err(reason) => reason.to_string(),
            };
            let least = plan.least_precise(&catalogue);
            plan.choices.retain(|c| c.precision(&catalogue) < least);
            plan.precision = Precision::F32;
            plan.state = StateFormat::F32;
            allowed = if least == Precision::Q8 { Precision::Q15 } else { Precision::F32 };
            self.note(Note::Dropped { precision: least, detail })?;
        }
        Ok(allowed)
    }
}
