//! One benchmark, as it is appended to `benchmarks.jsonl`, and files of such lines.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use wgoose_files::{Lines, LinesError};
use wgoose_kernels::PrecisionClass;

/// One benchmark of one configuration; medians, with the raw samples.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BenchRecord {
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
    pub sequences: usize,
    /// Share of the decoding time that the CPU spent encoding steps; absent where tokens are chosen from logits read
    /// back.
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
    /// The class of precision that the hash is of, if that was recorded.
    pub quality_class: Option<PrecisionClass>,
    /// Certified decisions, all of which agree with the reference's, if they were counted.
    pub quality_decisions: Option<u32>,
    /// Milliseconds of each reading of the prompt.
    pub prefill_ms: Vec<f64>,
    /// Milliseconds of each generation.
    pub decode_ms: Vec<f64>,
}

impl BenchRecord {
    /// What was timed: only records in which it is equal can be compared.
    pub fn work(&self) -> impl PartialEq + use<'_> {
        let BenchRecord { device, fingerprint, prefill_tokens, decode_tokens, sequences, .. } = self;
        (device, fingerprint, prefill_tokens, decode_tokens, sequences)
    }
}

/// Why records cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file.
    #[error(transparent)]
    Lines(#[from] LinesError),
    /// The file has lines, and none is a record. It was not touched.
    #[error("'{}' has no record in it: name another file, or remove it", .0.display())]
    NoRecords(PathBuf),
    /// The file cannot be read.
    #[error("cannot read '{}': {why}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: std::io::Error,
    },
    /// A line of it is no such record.
    #[error("{}:{line}: {why}", .path.display())]
    NoRecord {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What JSON says.
        why: serde_json::Error,
    },
    /// A record that JSON has no word for.
    #[error("the record cannot be written: {0}")]
    Json(#[from] serde_json::Error),
}

/// The records of a file, which stays as it is.
///
/// # Errors
/// The file cannot be read, a line of it is something else, or it has none.
pub fn saved<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, RecordError> {
    let text = std::fs::read_to_string(path).map_err(|why| RecordError::Unreadable { path: path.to_owned(), why })?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let no_record = |line, why| RecordError::NoRecord { path: path.to_owned(), line, why };
    let records = lines.map(|(i, line)| serde_json::from_str(line).map_err(|why| no_record(i + 1, why)));
    match records.collect::<Result<Vec<T>, _>>()? {
        none if none.is_empty() => Err(RecordError::NoRecords(path.to_owned())),
        records => Ok(records),
    }
}

/// A file of records open for writing: one a line, by one writer at a time.
pub struct Records<T> {
    lines: Lines,
    /// What it holds.
    pub known: Vec<T>,
    /// Lines that cannot be read, for people. They stay, but for a piece at the end that was never finished.
    pub notices: Vec<String>,
}

impl<T: Serialize + DeserializeOwned> Records<T> {
    /// Opens a file, or makes one, parent folders included. A piece of a line at its end is moved to `NAME.torn`.
    ///
    /// # Errors
    /// The file is being written to, is something else, or cannot be opened.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let (mut lines, bytes) = Lines::open(path)?;
        let (mut known, mut notices, mut at, mut torn) = (Vec::new(), Vec::new(), 0, None);
        for (i, piece) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
            let text = piece.trim_ascii();
            match serde_json::from_slice(text) {
                Ok(record) => known.push(record),
                Err(_) if text.is_empty() => {}
                Err(_) if !piece.ends_with(b"\n") => torn = Some((i + 1, at)),
                Err(why) => notices.push(format!("{}:{}: skipped: {why}", path.display(), i + 1)),
            }
            at += piece.len() as u64;
        }
        if known.is_empty() && !notices.is_empty() {
            return Err(RecordError::NoRecords(path.to_owned()));
        }
        match torn {
            Some((line, from)) => {
                let aside = lines.set_aside(from)?;
                let (path, aside) = (path.display(), aside.display());
                notices.push(format!("{path}:{line}: it was never finished, and is now in {aside}"));
            }
            None if bytes.last().is_some_and(|last| *last != b'\n') => lines.end_line()?,
            None => {}
        }
        Ok(Records { lines, known, notices })
    }

    /// Appends a record, on disk when this returns.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&mut self, record: T) -> Result<(), RecordError> {
        self.lines.append(&serde_json::to_string(&record)?)?;
        self.known.push(record);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_torn_line_is_set_aside_and_a_damaged_line_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.jsonl");
        std::fs::write(&path, "{\"a\":1}\n{\"a\":\u{1}}\n{\"a\":3").unwrap();
        let mut records = Records::<Value>::open(&path).unwrap();
        assert_eq!((&records.known[..], records.notices.len()), (&[json!({ "a": 1 })][..], 2), "{:?}", records.notices);
        records.append(json!({ "a": 4 })).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"{\"a\":1}\n{\"a\":\x01}\n{\"a\":4}\n");
        assert_eq!(std::fs::read(folder.path().join("b.jsonl.torn")).unwrap(), b"{\"a\":3\n");
    }

    #[test]
    fn an_unended_last_line_is_ended_and_a_foreign_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.jsonl");
        std::fs::write(&path, "[1]").unwrap();
        Records::<Value>::open(&path).unwrap().append(json!([2])).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"[1]\n[2]\n");
        std::fs::write(&path, "a goose\n").unwrap();
        assert!(matches!(Records::<Value>::open(&path), Err(RecordError::NoRecords(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"a goose\n");
    }
}
