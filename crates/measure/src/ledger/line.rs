//! A record as one line of JSON, and back.
//!
//! ```text
//! {"schema":1,"id":"<hash of what follows>","key":"...","record":"trial","at":...,...}
//! ```
//! The first two fields come first, as written here: the id is the hash of the line's bytes behind it, so that it both
//! names the record and betrays a changed bit. Unknown fields are refused: adding one raises [`SCHEMA`], and a line of
//! another schema is refused by its number.

use super::error::{LineError, OPENING, SCHEMA};
use super::identity::short_hex;
use super::record::Record;
use super::records::Entry;
use serde::Serialize;

/// Everything behind the id. The key stands first, for whoever looks for one without reading all.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(flatten)]
    record: &'a Record,
}

/// The id and the line of `record`, without the line's end.
pub(super) fn encode(record: &Record) -> Result<(String, String), LineError> {
    let (at, samples): (f64, Vec<f64>) = match record {
        Record::Trial(trial) => (trial.at, trial.outcome.all_samples_ns().collect()),
        Record::Plan(plan) => (plan.at, Vec::new()),
        Record::Session(session) => (session.at, vec![session.budget]),
        Record::Refused(refused) => (refused.at, Vec::new()),
        Record::Decision(decision) => (decision.at, Vec::new()),
        Record::Alike(alike) => (alike.at, Vec::new()),
        Record::Experiment(arms) => (arms.at, Vec::new()),
    };
    let fields = [("at", vec![at]), ("samples_ns", samples)];
    for (field, values) in fields {
        if let Some(value) = values.into_iter().find(|x| !x.is_finite()) {
            return Err(LineError::NotFinite { field, value });
        }
    }
    let key = record.trial().map(|trial| trial.identity.key());
    let body = serde_json::to_string(&Written { key, record })?;
    let behind_id = &body[1..];
    let id = hash(behind_id);
    let line = format!("{OPENING}{SCHEMA},\"id\":\"{id}\",{behind_id}");
    Ok((id, line))
}

/// The record of a line, without the line's end. The schema is looked at first, the bytes second, their meaning last.
pub(super) fn decode(line: &[u8]) -> Result<Entry, LineError> {
    let line = str::from_utf8(line).map_err(|_| LineError::Head)?;
    let (schema, rest) = line.strip_prefix(OPENING).and_then(|l| l.split_once(',')).ok_or(LineError::Head)?;
    let found: u32 = schema.parse().map_err(|_| LineError::Head)?;
    if found != SCHEMA {
        return Err(LineError::Schema { found });
    }
    let (id, behind_id) = rest.strip_prefix("\"id\":\"").and_then(|l| l.split_once("\",")).ok_or(LineError::Head)?;
    if hash(behind_id) != id {
        return Err(LineError::Damaged { id: id.to_owned() });
    }
    Ok(Entry::new(id.to_owned(), read(behind_id)?))
}

/// The record of a line's fields.
fn read(behind_id: &str) -> Result<Record, LineError> {
    let (key, fields) = match behind_id.strip_prefix("\"key\":\"").and_then(|rest| rest.split_once("\",")) {
        Some((key, fields)) => (Some(key), fields),
        None => (None, behind_id),
    };
    let record: Record = serde_json::from_str(&format!("{{{fields}"))?;
    let own = record.trial().map(|trial| trial.identity.key());
    if own.as_deref() != key {
        return Err(LineError::Key { key: key.unwrap_or_default().to_owned() });
    }
    Ok(record)
}

fn hash(behind_id: &str) -> String {
    short_hex(&blake3::hash(behind_id.as_bytes()))
}

#[cfg(test)]
pub(super) mod tests;
