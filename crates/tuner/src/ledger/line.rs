//! A record as one line of JSON, and back.
//!
//! ```text
//! {"schema":1,"id":"<hash of what follows>","at":...,"kind":"kernel","key":"...","subject":{...},"device":{...},...}
//! ```
//! The first two fields stand first, as written here: the id is the hash of the line's bytes behind it, so that it both
//! names the record and betrays a changed bit. Unknown fields are refused: adding one raises [`SCHEMA`].

use super::record::{Gate, Identity, Kind, Outcome, Policy, Reason, Record, Subject, short_hex};
use super::records::Entry;
use serde::{Deserialize, Serialize};
use std::fmt;
use wgoose_kernels::DeviceFingerprint;

/// The version of the record's layout that this build writes, and the only one it reads.
const SCHEMA: u32 = 1;

/// How every line, and therefore every ledger, begins.
pub(super) const OPENING: &str = "{\"schema\":";

/// Why a line cannot be read, or a record cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The line does not begin as every line does.
    #[error("it does not begin with {Head}")]
    Head,
    /// Written by another version of the program.
    #[error("its schema is {found}, this program reads {SCHEMA}: use the version that wrote it")]
    Schema {
        /// The schema it names.
        found: u32,
    },
    /// Bytes have changed since it was written.
    #[error("its content does not match its id {id}: it was damaged or edited")]
    Damaged {
        /// The id it names.
        id: String,
    },
    /// It is not JSON of the right shape.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// Its key is not that of its identity.
    #[error("its key {key} is not that of its identity")]
    Key {
        /// The key it names.
        key: String,
    },
    /// A field is missing or does not belong.
    #[error("the fields do not make a record of kind {kind:?}")]
    Fields {
        /// The kind it names.
        kind: Kind,
    },
    /// JSON has no word for it.
    #[error("`{field}` holds {value}, which is not a finite number")]
    NotFinite {
        /// The field.
        field: &'static str,
        /// Its value.
        value: f64,
    },
}

/// The line's opening, for messages.
#[derive(Clone, Copy, Debug)]
struct Head;

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OPENING}{SCHEMA},\"id\":\"")
    }
}

/// Everything behind the id, flat, in the order in which it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    at: f64,
    kind: Kind,
    key: String,
    subject: Subject,
    device: DeviceFingerprint,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    policy: Policy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    samples_ns: Option<Vec<f64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gate: Option<Gate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
}

/// The id and the line of `record`, without the line's end.
pub(super) fn encode(record: &Record) -> Result<(String, String), LineError> {
    let not_finite = |field, values: &[f64]| match values.iter().find(|x| !x.is_finite()) {
        Some(&value) => Err(LineError::NotFinite { field, value }),
        None => Ok(()),
    };
    not_finite("at", &[record.at])?;
    not_finite("samples_ns", record.outcome.samples_ns())?;

    let body = serde_json::to_string(&Body::from(record))?;
    let behind_id = &body[1..];
    let id = hash(behind_id);
    let line = format!("{OPENING}{SCHEMA},\"id\":\"{id}\",{behind_id}");
    Ok((id, line))
}

/// The record of a line, without the line's end. The schema is looked at first, the bytes second, their meaning last.
pub(super) fn decode(line: &[u8]) -> Result<Entry, LineError> {
    let line = str::from_utf8(line).map_err(|_| LineError::Head)?;
    let (schema, rest) = line.strip_prefix(OPENING).and_then(|l| l.split_once(',')).ok_or(LineError::Head)?;
    let found = schema.parse().map_err(|_| LineError::Head)?;
    if found != SCHEMA {
        return Err(LineError::Schema { found });
    }
    let (id, behind_id) = rest.strip_prefix("\"id\":\"").and_then(|l| l.split_once("\",")).ok_or(LineError::Head)?;
    if hash(behind_id) != id {
        return Err(LineError::Damaged { id: id.to_owned() });
    }
    let body: Body = serde_json::from_str(&format!("{{{behind_id}"))?;
    Ok(Entry::new(id.to_owned(), body.into_record()?))
}

fn hash(behind_id: &str) -> String {
    short_hex(&blake3::hash(behind_id.as_bytes()))
}

impl From<&Record> for Body {
    fn from(Record { at, identity, outcome }: &Record) -> Self {
        let Identity { subject, device, model, policy } = identity.clone();
        let mut body = Body {
            at: *at,
            kind: outcome.kind(),
            key: identity.key(),
            subject,
            device,
            model,
            policy,
            samples_ns: None,
            gate: None,
            reason: None,
        };
        match outcome.clone() {
            Outcome::Intent => {}
            Outcome::Kernel { samples_ns, gate } | Outcome::Step { samples_ns, gate } => {
                (body.samples_ns, body.gate) = (Some(samples_ns), gate);
            }
            Outcome::Control { samples_ns } => body.samples_ns = Some(samples_ns),
            Outcome::Gate(gate) => body.gate = Some(gate),
            Outcome::Failed(reason) => body.reason = Some(reason),
        }
        body
    }
}

impl Body {
    fn into_record(self) -> Result<Record, LineError> {
        let Body { at, kind, key, subject, device, model, policy, samples_ns, gate, reason } = self;
        let outcome = match (kind, samples_ns, gate, reason) {
            (Kind::Intent, None, None, None) => Outcome::Intent,
            (Kind::Kernel, Some(samples_ns), gate, None) => Outcome::Kernel { samples_ns, gate },
            (Kind::Step, Some(samples_ns), gate, None) => Outcome::Step { samples_ns, gate },
            (Kind::Control, Some(samples_ns), None, None) => Outcome::Control { samples_ns },
            (Kind::Gate, None, Some(gate), None) => Outcome::Gate(gate),
            (Kind::Refusal | Kind::Failure, None, None, Some(reason)) => Outcome::Failed(reason),
            _ => return Err(LineError::Fields { kind }),
        };
        if outcome.kind() != kind {
            return Err(LineError::Fields { kind });
        }
        let identity = Identity { subject, device, model, policy };
        if identity.key() != key {
            return Err(LineError::Key { key });
        }
        Ok(Record { at, identity, outcome })
    }
}

#[cfg(test)]
pub(super) mod tests;
