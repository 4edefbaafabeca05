//! Samples in saved records of either kind: whole sessions by title, and rows of workloads.

use crate::BenchRecord;
use serde::Deserialize;
use serde_json::Value;
use wgoose_kernels::PrecisionClass;

/// One piece of work with its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    /// Adapter and driver.
    pub device: String,
    /// The model file's name.
    pub model: String,
    /// Its fingerprint.
    pub fingerprint: String,
    /// The work, for people.
    pub what: String,
    /// Milliseconds of each run.
    pub samples_ms: Vec<f64>,
    /// What the quality gate said of the answers, where it was asked.
    pub quality_hash: Option<String>,
    /// The class of precision that the hash is of, if that was recorded.
    pub quality_class: Option<PrecisionClass>,
}

impl Timed {
    /// Whether both are samples of one thing: the same work with the same model on the same device.
    pub fn is_of(&self, other: &Timed) -> bool {
        (&self.device, &self.fingerprint, &self.what) == (&other.device, &other.fingerprint, &other.what)
    }
}

/// A line of a file of records. Those of workloads may have fields that their writers added, such as the name of an
/// arm.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Saved {
    /// A whole session: [`BenchRecord`].
    Session(Box<BenchRecord>),
    /// Rows of workloads: [`crate::workload::WorkloadReport`].
    Rows {
        /// Adapter and driver.
        device: String,
        /// The model file's name.
        model: String,
        /// Its fingerprint.
        fingerprint: String,
        /// The rows.
        rows: Vec<SavedRow>,
    },
    /// Something else, such as starts of fresh processes.
    Other(Value),
}

/// A row of a report that was saved.
#[derive(Clone, Debug, Deserialize)]
pub struct SavedRow {
    what: String,
    samples_ms: Vec<f64>,
}

impl Saved {
    /// Whether it was filed under that title, or as that change; those of workloads have neither.
    pub fn is_named(&self, name: &str) -> bool {
        matches!(self, Saved::Session(record) if record.title == name || record.change == name)
    }

    /// What it has samples of.
    pub fn timed(&self) -> Vec<Timed> {
        match self {
            Saved::Session(record) => {
                let BenchRecord {
                    device,
                    model,
                    fingerprint,
                    prefill_tokens,
                    decode_tokens,
                    sequences,
                    quality_hash,
                    quality_class,
                    ..
                } = &**record;
                let timed = |what, samples_ms: &[f64]| Timed {
                    device: device.clone(),
                    model: model.clone(),
                    fingerprint: fingerprint.clone(),
                    what,
                    samples_ms: samples_ms.to_vec(),
                    quality_hash: Some(quality_hash.clone()),
                    quality_class: *quality_class,
                };
                let written = match sequences {
                    1 => format!("{decode_tokens} tokens written"),
                    n => format!("{n} sequences write {decode_tokens}"),
                };
                let read = format!("prompt of {prefill_tokens} tokens");
                vec![timed(read, &record.prefill_ms), timed(written, &record.decode_ms)]
            }
            Saved::Rows { device, model, fingerprint, rows } => {
                let timed = |row: &SavedRow| Timed {
                    device: device.clone(),
                    model: model.clone(),
                    fingerprint: fingerprint.clone(),
                    what: row.what.clone(),
                    samples_ms: row.samples_ms.clone(),
                    quality_hash: None,
                    quality_class: None,
                };
                rows.iter().map(timed).collect()
            }
            Saved::Other(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_records_have_samples() {
        let rows = r#"{"arm":"new","device":"d","model":"m","fingerprint":"f","version":"1","rows":[
            {"workload":"prompt","job":{"prompt":32},"what":"prompt of 32 tokens","samples_ms":[1.5,2.0],"references":[]}]}"#;
        let timed = serde_json::from_str::<Saved>(rows).unwrap().timed();
        assert_eq!((timed.len(), &*timed[0].what, &*timed[0].samples_ms), (1, "prompt of 32 tokens", &[1.5, 2.0][..]));
        let session = r#"{"title":"t","change":"c","at":1,"model":"m","fingerprint":"f","device":"d","plan":"p","prefill_chunk":64,"sequences":1,
            "prefill_tokens":32,"decode_tokens":64,"load_ms":1,"first_token_ms":1,"prefill_tok_s":1,"decode_tok_s":1,
            "peak_memory_mib":null,"quality_hash":"q","prefill_ms":[1.0],"decode_ms":[2.0,3.0]}"#;
        let session: Saved = serde_json::from_str(session).unwrap();
        assert!(session.is_named("t") && session.is_named("c") && !session.is_named("m"));
        let of_session = session.timed();
        assert!(of_session[0].is_of(&timed[0]) && !of_session[1].is_of(&timed[0]), "{of_session:?}");
        assert_eq!(of_session[1].samples_ms, [2.0, 3.0]);
        assert!(serde_json::from_str::<Saved>("{\"cold\":1}").unwrap().timed().is_empty());
    }
}
