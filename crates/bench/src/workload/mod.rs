//! Named workloads: what people do with a model, each timed as they would meet it.

mod llama_bench;
mod measure;
mod peers;
mod spread;

pub use llama_bench::{LlamaBench, PeerError, UnknownPeer};
pub use measure::{Jobs, measure};
pub use peers::{Reference, references};
pub use spread::Spread;

use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use wgoose_measure::timer::WarmUp;

/// Lengths of the fields of `fields`, in tokens.
pub(crate) const FIELDS: [usize; 6] = [5, 8, 12, 19, 27, 40];
/// Tokens of the document of `document`.
pub(crate) const DOCUMENT: usize = 212;
/// Tokens of the history, of the prompt and of the answer of `chat`.
pub(crate) const CHAT: [usize; 3] = [300, 40, 64];
/// Sequences, tokens of each prompt and of each answer of `batch`.
pub(crate) const BATCH: [usize; 3] = [32, 64, 64];

/// A named workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// The state of a document, read back.
    Document,
    /// Short fields embedded, in one call and one by one.
    Fields,
    /// A turn of a chat that has a history.
    Chat,
    /// Sequences that are read and continued together.
    Batch,
    /// A fresh process until its first logits.
    Cold,
}

impl Workload {
    /// Every workload, in the order of reports.
    pub const ALL: [Workload; 5] =
        [Workload::Document, Workload::Fields, Workload::Chat, Workload::Batch, Workload::Cold];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Workload::Document => "document",
            Workload::Fields => "fields",
            Workload::Chat => "chat",
            Workload::Batch => "batch",
            Workload::Cold => "cold",
        }
    }
}

/// One workload, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// All.
    All,
    /// One.
    One(Workload),
}

/// A name that is no [`Workload`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown workload '{0}': expected document, fields, chat, batch, cold or all")]
pub struct UnknownWorkload(String);

impl FromStr for Chosen {
    type Err = UnknownWorkload;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match Workload::ALL.into_iter().find(|w| w.name() == name) {
            Some(one) => Ok(Chosen::One(one)),
            None if name == "all" => Ok(Chosen::All),
            None => Err(UnknownWorkload(name.to_owned())),
        }
    }
}

/// What one row measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// The state after so many tokens, read back; no logits.
    Document(usize),
    /// Short fields embedded in one call.
    FieldsTogether,
    /// Short fields embedded in a call each.
    FieldsAlone,
    /// Reading a prompt after a history, until the first token is chosen.
    FirstToken,
    /// A prompt of so many tokens, until the logits after its last one are there.
    Prompt(usize),
    /// So many prompts of so many tokens in one call, until the last logits of each are there.
    Packed(usize, usize),
    /// Sequences that decode together, greedily, and the tokens that each writes.
    Decode(usize, usize),
    /// A fresh process until the logits of a first prompt; `kept`: with compiled kernels from before.
    Cold {
        /// Tokens of the prompt.
        tokens: usize,
        /// Whether compiled kernels are there from before.
        kept: bool,
    },
}

impl Job {
    /// Tokens that a run reads or writes; `None` where a rate says nothing.
    pub(crate) fn tokens(self) -> Option<usize> {
        match self {
            Job::Document(tokens) | Job::Prompt(tokens) => Some(tokens),
            Job::FieldsTogether | Job::FieldsAlone => Some(FIELDS.iter().sum()),
            Job::Packed(sequences, tokens) | Job::Decode(sequences, tokens) => Some(sequences * tokens),
            Job::FirstToken | Job::Cold { .. } => None,
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: usize = FIELDS.iter().sum();
        let text = match self {
            Job::Document(tokens) => format!("{tokens} tokens, state read back"),
            Job::FieldsTogether => format!("{} fields, {fields} tokens, one call", FIELDS.len()),
            Job::FieldsAlone => format!("{} fields, {fields} tokens, a call each", FIELDS.len()),
            Job::FirstToken => format!("first token, {} after {}", CHAT[1], CHAT[0]),
            Job::Prompt(tokens) => format!("prompt of {tokens} tokens"),
            Job::Packed(sequences, tokens) => format!("{sequences} prompts of {tokens} tokens"),
            Job::Decode(1, tokens) => format!("{tokens} tokens written"),
            Job::Decode(sequences, tokens) => format!("{sequences} sequences write {tokens}"),
            Job::Cold { tokens, kept: true } => format!("first logits of {tokens}, kernels kept"),
            Job::Cold { tokens, kept: false } => format!("first logits of {tokens}, kernels compiled"),
        };
        f.pad(&text)
    }
}

/// One row of a report.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The workload, or the option that asked for it.
    pub workload: &'static str,
    /// What was measured.
    pub job: Job,
    /// The same in words.
    pub what: String,
    /// Milliseconds of a sample.
    pub ms: Spread,
    /// Tokens a second at the median.
    pub tokens_per_s: Option<f64>,
    /// What was run before the first that counts; `None` for fresh processes.
    pub warm_up: Option<WarmUp>,
    /// What others need for it, where a figure of the same model, format and job is known.
    pub references: Vec<Reference>,
    /// Milliseconds of each sample: what is shorter than 25 ms is run up to eight times for one, and the median counts.
    pub samples_ms: Vec<f64>,
}

impl Row {
    /// A row from its samples; `None` without any.
    pub fn new(workload: &'static str, job: Job, warm_up: Option<WarmUp>, samples_ms: Vec<f64>) -> Option<Row> {
        let ms = Spread::of(&samples_ms)?;
        let tokens_per_s = job.tokens().map(|tokens| tokens as f64 / ms.median * 1e3);
        Some(Row {
            workload,
            job,
            what: job.to_string(),
            ms,
            tokens_per_s,
            warm_up,
            references: Vec::new(),
            samples_ms,
        })
    }
}

/// Where the rows were measured.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// Seconds since 1970.
    pub at: u64,
    /// Version of wgoose.
    pub version: String,
    /// Version of wgpu.
    pub wgpu: &'static str,
    /// Model file name.
    pub model: String,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Its fingerprint.
    pub fingerprint: String,
    /// The published size that it has.
    pub size: Option<&'static str>,
    /// Its mix of formats, as llama.cpp names it, where it has a name.
    pub formats: Option<&'static str>,
    /// Number of its weights.
    pub parameters: u64,
    /// Adapter and driver.
    pub device: String,
    /// Hash of the plan; `None` for the CPU reference.
    pub plan: Option<String>,
    /// The plan's file, or its name in the store; `None` for the default plan.
    pub plan_file: Option<String>,
    /// Most tokens in one pass.
    pub prefill_chunk: usize,
}

/// A whole benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadReport {
    /// Where it was measured.
    #[serde(flatten)]
    pub environment: Environment,
    /// What was measured.
    pub rows: Vec<Row>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_parsed_by_its_name() {
        for workload in Workload::ALL {
            assert_eq!(workload.name().parse(), Ok(Chosen::One(workload)));
        }
        assert_eq!("all".parse(), Ok(Chosen::All));
        let why = "chats".parse::<Chosen>().unwrap_err().to_string();
        assert!(Workload::ALL.iter().all(|w| why.contains(w.name())), "{why}");
    }

    #[test]
    fn a_rate_is_all_tokens_at_the_median() {
        let row = Row::new("batch", Job::Packed(32, 64), None, vec![30.0, 20.0, 10.0]).unwrap();
        assert_eq!((row.ms.median, row.ms.min, row.ms.max), (20.0, 10.0, 30.0));
        assert_eq!(row.tokens_per_s, Some(102_400.0));
        assert!(Row::new("batch", Job::Packed(32, 64), None, vec![]).is_none());
        let cold = Job::Cold { tokens: 32, kept: true };
        assert_eq!(Row::new("cold", cold, None, vec![1.0]).unwrap().tokens_per_s, None);
    }
}
