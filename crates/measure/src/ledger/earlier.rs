//! Records of schema 1: one for each arm, subjects as words. They are read, and never written.

use super::error::LineError;
use super::identity::{Earlier, Identity, Policy, Subject, Tried};
use super::record::{Cause, Gate, Outcome, Reason, Record, Timing, Trial};
use serde::Deserialize;
use wgoose_kernels::DeviceFingerprint;

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
