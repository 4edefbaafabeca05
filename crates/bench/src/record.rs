//! One benchmark, as it is appended to `benchmarks.jsonl`.

use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// One benchmark of one configuration; medians, with the raw samples.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// What is being worked on: records of one title are compared.
    pub title: String,
    /// What is different in this one.
    pub change: String,
    /// Seconds since 1970.
    pub at: u64,
    /// Model file name.
    pub model: String,
    /// Its fingerprint.
    pub fingerprint: String,
    /// Adapter and driver.
    pub device: String,
    /// Hash of the plan.
    pub plan: String,
    /// Its chunk.
    pub prefill_chunk: u32,
    /// Tokens of the prompt whose reading is timed.
    pub prefill_tokens: usize,
    /// Tokens generated.
    pub decode_tokens: usize,
    /// Sequences of batched decode.
    #[serde(default = "one")]
    pub sequences: usize,
    /// Share of the decoding time that the CPU spent encoding steps; absent where tokens are chosen from logits read back.
    #[serde(default)]
    pub encode_share: Option<f64>,
    /// Opening the file and the device, until a session is there.
    pub load_ms: f64,
    /// From the start of loading until the logits of a first prompt of 32 tokens.
    pub first_token_ms: f64,
    /// Tokens of the prompt read in a second.
    pub prefill_tok_s: f64,
    /// Tokens generated in a second, of all sequences.
    pub decode_tok_s: f64,
    /// Largest resident set of the process, mapped pages of the model included; absent where the system does not say.
    pub peak_memory_mib: Option<f64>,
    /// What the quality gate says of its answers.
    pub quality_hash: String,
    /// Milliseconds of each reading of the prompt.
    pub prefill_ms: Vec<f64>,
    /// Milliseconds of each generation.
    pub decode_ms: Vec<f64>,
}

/// Records of the first version had one.
fn one() -> usize {
    1
}

/// Appends a record: one line, on disk when this returns.
pub fn append(path: &Path, record: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_string(record)?;
    line.push('\n');
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(line.as_bytes())?;
    file.sync_data()
}

/// Reads every record; a line that is none is an error naming it.
pub fn read(path: &Path) -> Result<Vec<Record>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let parse = |(i, line)| serde_json::from_str(line).map_err(|e| format!("{}:{}: {e}", path.display(), i + 1));
    text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()).map(parse).collect()
}
