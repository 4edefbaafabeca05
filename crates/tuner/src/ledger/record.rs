//! What a ledger remembers: what was tried, on what, under which policy, and what came of it.

use super::number;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use wgoose_graph::Format;
use wgoose_kernels::DeviceFingerprint;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// When, in seconds since 1970 (UTC), by the caller's clock.
    pub at: f64,
    /// What was tried, and where.
    pub identity: Identity,
    /// What came of it.
    pub outcome: Outcome,
}

/// Everything that makes two measurements comparable. A name is not an identity: an edited kernel, another driver or
/// another cache policy is another experiment, and does not inherit the old one's numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// The candidate.
    pub subject: Subject,
    /// Where it ran.
    pub device: DeviceFingerprint,
    /// Content id of the model, where weights matter.
    pub model: Option<String>,
    /// How it was measured.
    pub policy: Policy,
}

impl Identity {
    /// The identity's content hash, 32 hex digits: equal for all records of one experiment. It covers strings and
    /// integers only, in a fixed order, so that it does not depend on how floats are printed.
    pub fn key(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        // Strings, integers and string-keyed maps always serialise; a hasher never fails to take them.
        serde_json::to_writer(&mut hasher, self).expect("an identity is plain JSON");
        short_hex(&hasher.finalize())
    }
}

/// The first 128 bits of a hash: ample for a ledger, and readable.
pub(super) fn short_hex(hash: &blake3::Hash) -> String {
    hash.to_hex()[..32].to_owned()
}

/// What is tried: a kernel variant on a shape, or a whole step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Operation, or `step` for a whole plan.
    pub op: String,
    /// Variant of the operation, or the plan's name.
    pub variant: String,
    /// Choices made: tunable to literal.
    pub tunables: BTreeMap<String, String>,
    /// Sizes it ran on: dimension to elements.
    pub shape: BTreeMap<String, u64>,
    /// Format of its weights, where it has any of one format.
    pub format: Option<Format>,
    /// Content hash of the final WGSL, or of the plan.
    pub kernel_hash: String,
}

/// How samples are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// State of the caches before each sample, such as `weights-rotated`.
    pub cache: String,
    /// Dispatches per sample.
    pub repeats: u32,
    /// Which clock.
    pub clock: Clock,
}

/// Where times come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The GPU's timestamp queries.
    Timestamps,
    /// Wall clock around submit and poll.
    Wall,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is about to be tried. Where this is the last word on a key, the try took the process with it.
    Intent,
    /// A kernel ran, and passed or was not gated.
    Kernel {
        /// Raw times, in the order taken.
        samples_ns: Vec<f64>,
        /// The gate's verdict, where one was asked.
        gate: Option<Gate>,
    },
    /// A whole step ran.
    Step {
        /// Raw times, in the order taken.
        samples_ns: Vec<f64>,
        /// The gate's verdict, where one was asked.
        gate: Option<Gate>,
    },
    /// The control kernel ran.
    Control {
        /// Raw times, in the order taken.
        samples_ns: Vec<f64>,
    },
    /// The quality gate alone.
    Gate(Gate),
    /// It was refused (by a constraint, before compiling) or it failed.
    Failed(Reason),
}

impl Outcome {
    /// A failure.
    pub(crate) fn failed(cause: Cause, text: String) -> Self {
        Outcome::Failed(Reason { cause, text })
    }

    /// The kind under which the outcome is written.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Outcome::Intent => Kind::Intent,
            Outcome::Kernel { .. } => Kind::Kernel,
            Outcome::Step { .. } => Kind::Step,
            Outcome::Control { .. } => Kind::Control,
            Outcome::Gate(_) => Kind::Gate,
            Outcome::Failed(Reason { cause: Cause::Constraint, .. }) => Kind::Refusal,
            Outcome::Failed(_) => Kind::Failure,
        }
    }

    /// Raw times; empty where nothing was timed.
    pub(crate) fn samples_ns(&self) -> &[f64] {
        match self {
            Outcome::Kernel { samples_ns, .. } | Outcome::Step { samples_ns, .. } | Outcome::Control { samples_ns } => {
                samples_ns
            }
            Outcome::Intent | Outcome::Gate(_) | Outcome::Failed(_) => &[],
        }
    }
}

/// The word for an [`Outcome`] in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// [`Outcome::Intent`].
    Intent,
    /// [`Outcome::Kernel`].
    Kernel,
    /// [`Outcome::Step`].
    Step,
    /// [`Outcome::Control`]; the file has an older word for it.
    #[serde(rename = "canary")]
    Control,
    /// [`Outcome::Gate`].
    Gate,
    /// [`Outcome::Failed`] by [`Cause::Constraint`].
    Refusal,
    /// [`Outcome::Failed`] by any other cause.
    Failure,
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
    /// Hash of the certified greedy tokens, for whole models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality_hash: Option<String>,
    /// What was compared, or where it went wrong.
    pub detail: String,
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
    /// The device was lost.
    DeviceLost,
    /// It ran, and its numbers are wrong.
    WrongResult,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Cause::Constraint => "constraint",
            Cause::Compile => "compile",
            Cause::Runtime => "runtime",
            Cause::Timeout => "timeout",
            Cause::DeviceLost => "device lost",
            Cause::WrongResult => "wrong result",
        })
    }
}
