//! What a ledger remembers: what was tried, on what, and what came of it; the plans that were tried; why what was left
//! out was.

use super::identity::Identity;
use super::number;
use crate::driver::Drive;
use crate::job::{Cost, PlanId, SiteId};
use crate::scenario::Scenario;
use serde::{Deserialize, Serialize};
use std::fmt;
use wgoose_graph::ModelShape;
use wgoose_kernels::plan::Checked;
use wgoose_kernels::{DeviceFingerprint, Limits, Plan, Precision, PrecisionClass};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case", deny_unknown_fields)]
pub enum Record {
    /// Something was tried.
    Trial(Box<Trial>),
    /// The contents of a plan, before it is first tried.
    Plan(PlanRecord),
    /// A sweep began.
    Session(SessionRecord),
    /// Configurations that were left out for one reason, without being made.
    Refused(Refused),
    /// A choice that a sweep made, or did not come to.
    Decision(Decision),
    /// A scenario that a plan runs as another one does.
    Alike(Alike),
    /// The arms of an experiment, behind its session.
    Experiment(Arms),
}

impl Record {
    /// The trial, if it is one.
    pub fn trial(&self) -> Option<&Trial> {
        match self {
            Record::Trial(trial) => Some(trial),
            _ => None,
        }
    }
}

/// Something that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// When, in seconds since 1970 (UTC), by the caller's clock.
    pub at: f64,
    /// The sweep that tried it: the id of its [`SessionRecord`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What was tried, and where.
    pub identity: Identity,
    /// What it took; `None` where it has not ended, and where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Outcome {
    /// It is about to be tried. Where this is the last word on a key, the try took the process with it.
    Intent,
    /// A kernel ran and was right.
    Kernel(Timing),
    /// The control kernel ran.
    Control(Timing),
    /// Both arms of a comparison ran.
    Pair {
        /// Raw times of the incumbent and the candidate, in the order taken: a dispatch's, or a step's.
        samples_ns: [Vec<f64>; 2],
        /// Dispatches, or steps, of each sample. Where a sample of steps has parts, its time is that of the fastest.
        repeats: u32,
        /// Copies of the weights that were streamed in turn; 0: the model's own.
        copies: u32,
    },
    /// The quality gate alone.
    Gate(Gate),
    /// It was done: a persistent kernel runs, kernels were compiled.
    Done,
    /// It was refused (by a constraint, before compiling) or it failed.
    Failed(Reason),
    /// The user broke it off: nothing is known of it.
    Interrupted,
}

/// Times of one kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Raw times of one dispatch, in the order taken.
    pub samples_ns: Vec<f64>,
    /// Dispatches of each sample.
    pub repeats: u32,
    /// Copies of the weights that were streamed in turn.
    pub copies: u32,
    /// The gate's verdict, where one was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
}

impl Outcome {
    /// A failure.
    pub fn failed(cause: Cause, text: String) -> Self {
        Outcome::Failed(Reason { cause, text })
    }

    /// Whether it says what came of the try.
    pub fn is_known(&self) -> bool {
        !matches!(self, Outcome::Intent | Outcome::Interrupted)
    }

    /// Raw times of one kernel; empty where nothing was timed.
    pub fn samples_ns(&self) -> &[f64] {
        match self {
            Outcome::Kernel(timing) | Outcome::Control(timing) => &timing.samples_ns,
            Outcome::Intent | Outcome::Pair { .. } | Outcome::Gate(_) | Outcome::Done => &[],
            Outcome::Failed(_) | Outcome::Interrupted => &[],
        }
    }

    /// All raw times.
    pub(super) fn all_samples_ns(&self) -> impl Iterator<Item = f64> + '_ {
        let pair: &[Vec<f64>] = match self {
            Outcome::Pair { samples_ns, .. } => samples_ns,
            _ => &[],
        };
        self.samples_ns().iter().chain(pair.iter().flatten()).copied()
    }
}

/// The contents of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRecord {
    /// When, in seconds since 1970 (UTC).
    pub at: f64,
    /// The plan, without evidence; its id is its hash.
    pub plan: Box<Plan>,
}

/// The beginning of a sweep: what it knew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionRecord {
    /// When, in seconds since 1970 (UTC).
    pub at: f64,
    /// Version of the program.
    pub version: String,
    /// Where it runs.
    pub device: DeviceFingerprint,
    /// What that can do.
    pub limits: Box<Limits>,
    /// Content id of the model.
    pub model: String,
    /// Its sizes.
    pub shape: ModelShape,
    /// The plan that every other is held against.
    pub default: PlanId,
    /// Seconds to spend.
    pub budget: f64,
    /// Seconds that a process for trials took to begin, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<f64>,
}

/// Configurations that were left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// When, in seconds since 1970 (UTC).
    pub at: f64,
    /// Where they run.
    pub device: DeviceFingerprint,
    /// At which site; `None` where a file gives no variant at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
    /// Their variant, or the file.
    pub variant: String,
    /// How many.
    pub configurations: u32,
    /// Of how many of the site.
    pub of: u32,
    /// Why.
    pub reason: Reason,
}

/// The stage of a decision that names the changes no time was left for.
pub const UNTRIED: &str = "not tried";

/// A choice that a sweep made, or did not come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// When, in seconds since 1970 (UTC).
    pub at: f64,
    /// The sweep: the id of its [`SessionRecord`].
    pub session: String,
    /// The stage of the sweep.
    pub stage: String,
    /// What was decided, one line for people.
    pub text: String,
    /// The plan that was best then.
    pub best: PlanId,
}

/// A scenario that a plan runs as another plan does, by the same kernels from the same weights: samples of that one
/// hold for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alike {
    /// When, in seconds since 1970 (UTC).
    pub at: f64,
    /// The sweep that looked: the id of its [`SessionRecord`].
    pub session: String,
    /// The plan.
    pub plan: PlanId,
    /// The scenario.
    pub scenario: Scenario,
    /// The plan that runs it in the same way.
    pub as_plan: PlanId,
}

/// The arms of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arms {
    /// When, in seconds since 1970 (UTC).
    pub at: f64,
    /// The id of its [`SessionRecord`].
    pub session: String,
    /// What it is called.
    pub experiment: String,
    /// Content hash of its declaration; `None` where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declaration: Option<String>,
    /// The baseline, then what is held against it.
    pub arms: Vec<ArmRecord>,
    /// What is to be timed of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workload: Vec<Scenario>,
    /// Arms that this device cannot have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<ImpossibleArm>,
}

/// An arm that a device cannot have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImpossibleArm {
    /// What it is called.
    pub name: String,
    /// Why there is none.
    pub reason: Reason,
}

/// One arm of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmRecord {
    /// What it is called.
    pub name: String,
    /// What jobs call it.
    pub id: PlanId,
    /// Hash of its plan, whose contents have a record of their own.
    pub plan: PlanId,
    /// Content id of its model, and, behind a plus sign, of kernels from beside the binary.
    pub model: String,
    /// Name of the model's file.
    pub file: String,
    /// The least precise arithmetic of its kernels.
    pub precision: Precision,
    /// Whether its plan asks for a persistent kernel.
    pub persistent: bool,
    /// How its plan is driven.
    #[serde(default, skip_serializing_if = "Drive::is_usual")]
    pub drive: Drive,
}

/// The quality gate's verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// Whether the numbers are good enough.
    pub passed: bool,
    /// Root mean square of the error over that of the reference. May be infinite or NaN, as wrong kernels are.
    #[serde(with = "number")]
    pub rms: f64,
    /// Largest absolute error. May be infinite or NaN.
    #[serde(with = "number")]
    pub max: f64,
    /// Hash of the certified decisions, for whole models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality_hash: Option<String>,
    /// Class of precision by whose measure they are certified, for whole models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<PrecisionClass>,
    /// Decisions that agree with the reference, and decisions in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreeing: Option<(u32, u32)>,
    /// Longest prompt and largest batch that were looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked: Option<Checked>,
    /// Certified positions of the reference, and positions in all, for whole models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certified: Option<(u32, u32)>,
    /// Hash of the very bits of the results, for kernels: those with the same one are interchangeable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<String>,
    /// What was compared, or where it went wrong.
    pub detail: String,
}

impl Gate {
    /// One that is passed, with the root mean square and the largest of the errors.
    pub fn passed([rms, max]: [f64; 2], detail: String) -> Self {
        let (quality_hash, class, certified, agreeing) = (None, None, None, None);
        let (checked, bits) = (None, None);
        Gate { passed: true, rms, max, quality_hash, class, certified, agreeing, checked, bits, detail }
    }
}

/// Why there are no samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(deny_unknown_fields)]
#[error("{cause}: {text}")]
pub struct Reason {
    /// The class of the failure.
    pub cause: Cause,
    /// What was said at the time.
    pub text: String,
}

/// Classes of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The variant does not take this shape, format or device; nothing was compiled.
    Constraint,
    /// WGSL or its pipeline did not compile.
    Compile,
    /// The dispatch or its read-back failed.
    Runtime,
    /// It did not end in time and was killed.
    Timeout,
    /// The device, or the machine, had no memory left.
    OutOfMemory,
    /// The device was lost.
    DeviceLost,
    /// It ran, and its numbers are wrong.
    WrongResult,
    /// It races, reads what nobody wrote, leaves a bound, or depends on an order that nothing promises: the sanitizer
    /// says where.
    Race,
    /// It ran in less time than the device needs to read what it reads, or to compute what it computes.
    Impossible,
    /// The persistent kernel of a plan did not run.
    NotResident,
    /// It ended the process that ran it.
    Crash,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Cause::Constraint => "constraint",
            Cause::Compile => "compile",
            Cause::Runtime => "runtime",
            Cause::Timeout => "timeout",
            Cause::OutOfMemory => "out of memory",
            Cause::DeviceLost => "device lost",
            Cause::WrongResult => "wrong result",
            Cause::Race => "race",
            Cause::Impossible => "impossible",
            Cause::NotResident => "not resident",
            Cause::Crash => "crash",
        })
    }
}
