//! Records of schema 1: one for each arm, subjects as words. They are read, and never written.

use super::line::LineError;
use super::record::{Cause, Clock, Gate, Identity, Outcome, Reason, Record, Timing, Trial, Tried, short_hex};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wgoose_graph::Format;
use wgoose_kernels::DeviceFingerprint;

/// What schema 1 says of what was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Earlier {
    /// What.
    pub subject: Subject,
    /// How.
    pub policy: Policy,
}

/// A kernel variant on a shape, or a whole step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Operation, or the loop of a whole plan.
    pub op: String,
    /// Variant of the operation, or the plan's name.
    pub variant: String,
    /// Choices made: tunable to literal; and what had no field of its own.
    pub tunables: BTreeMap<String, String>,
    /// Sizes it ran on: dimension to elements.
    pub shape: BTreeMap<String, u64>,
    /// Format of its first matrix.
    pub format: Option<Format>,
    /// Content hash of the final WGSL, or of the plan.
    pub kernel_hash: String,
}

/// How samples were taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// State of the caches before each sample, such as `weights-rotated`.
    pub cache: String,
    /// Dispatches per sample, as far as was said.
    pub repeats: u32,
    /// Which clock.
    pub clock: Clock,
}

impl Earlier {
    /// The content hash of an identity, as schema 1 has it.
    pub(super) fn key(&self, identity: &Identity) -> String {
        #[derive(Serialize)]
        struct Fields<'a> {
            subject: &'a Subject,
            device: &'a DeviceFingerprint,
            model: &'a Option<String>,
            policy: &'a Policy,
        }
        let Identity { device, model, .. } = identity;
        let fields = Fields { subject: &self.subject, device, model, policy: &self.policy };
        let text = serde_json::to_vec(&fields).expect("an identity is plain JSON");
        short_hex(&blake3::hash(&text))
    }
}

/// Everything behind the id, flat, in the order in which it was written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    at: f64,
    kind: Kind,
    key: String,
    subject: Subject,
    device: DeviceFingerprint,
    #[serde(default)]
    model: Option<String>,
    policy: Policy,
    #[serde(default)]
    samples_ns: Option<Vec<f64>>,
    #[serde(default)]
    gate: Option<Gate>,
    #[serde(default)]
    reason: Option<Reason>,
}

/// The word for an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Intent,
    Kernel,
    Step,
    Canary,
    Gate,
    Refusal,
    Failure,
}

/// The record of a line's fields.
pub(super) fn decode(behind_id: &str) -> Result<Record, LineError> {
    let Body { at, kind, key, subject, device, model, policy, samples_ns, gate, reason } =
        serde_json::from_str(&format!("{{{behind_id}"))?;
    let timing = |samples_ns, gate| Timing { samples_ns, repeats: policy.repeats, copies: 0, gate };
    let outcome = match (kind, samples_ns, gate, reason) {
        (Kind::Intent, None, None, None) => Outcome::Intent,
        (Kind::Kernel, Some(samples_ns), gate, None) if subject.tunables.contains_key("against") => {
            Outcome::Arm(timing(samples_ns, gate))
        }
        (Kind::Kernel, Some(samples_ns), gate, None) => Outcome::Kernel(timing(samples_ns, gate)),
        (Kind::Step, Some(samples_ns), gate, None) => Outcome::Arm(timing(samples_ns, gate)),
        (Kind::Canary, Some(samples_ns), None, None) => Outcome::Control(timing(samples_ns, None)),
        (Kind::Gate, None, Some(gate), None) => Outcome::Gate(gate),
        (Kind::Refusal, None, None, Some(reason)) if reason.cause == Cause::Constraint => Outcome::Failed(reason),
        (Kind::Failure, None, None, Some(reason)) if reason.cause != Cause::Constraint => Outcome::Failed(reason),
        _ => return Err(LineError::Fields),
    };
    let clock = policy.clock;
    let tried = Tried::Earlier(Earlier { subject, policy });
    let identity = Identity { tried, device, model, clock };
    if identity.key() != key {
        return Err(LineError::Key { key });
    }
    Ok(Record::Trial(Box::new(Trial { at, session: None, identity, cost: None, outcome })))
}
