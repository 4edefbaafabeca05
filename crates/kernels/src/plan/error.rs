//! Why a plan cannot be used.

use super::{MOST_NAME_BYTES, SCHEMA};
use crate::{ConfigError, KernelError, Refusal, TextError};
use std::path::{Path, PathBuf};
use wgoose_graph::{Format, LayerWeight};

/// Why a plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file cannot be read or written.
    #[error("plan {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is no plan.
    #[error("plan {}: line {line}, column {column}: {why}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        why: String,
    },
    /// What a file says.
    #[error("plan {}: {error}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: Box<PlanError>,
    },
    /// A file that is no plan, whatever it says.
    #[error("plan {}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// A name that nothing has.
    #[error("a name of {0} bytes is too long or has unprintable characters: at most {MOST_NAME_BYTES} bytes of text")]
    Name(usize),
    /// Another version of the schema.
    #[error("the plan has schema {0}, this program reads {SCHEMA}: tune again")]
    Schema(u32),
    /// Made for another device.
    #[error(
        "the plan was made for another device: {what} was '{plan}', here it is '{here}'; tune again, or allow a foreign plan"
    )]
    Device {
        /// Which part of the fingerprint.
        what: &'static str,
        /// In the plan.
        plan: String,
        /// On this device.
        here: String,
    },
    /// Made for another model.
    #[error("the plan was made for a model of another shape ({plan}), this one has {here}: tune again")]
    Model {
        /// In the plan.
        plan: String,
        /// Of this model.
        here: String,
    },
    /// Names a variant that does not exist.
    #[error("the plan names {0}, which this program does not have: tune again")]
    Unknown(String),
    /// A kernel is not the one that was measured.
    #[error("{0} has changed since the plan was made: tune again")]
    Changed(String),
    /// A chosen kernel does not run here.
    #[error("the plan's {kernel} is refused: {refusal}")]
    Refused {
        /// The kernel.
        kernel: String,
        /// Why.
        refusal: Refusal,
    },
    /// A kernel that no plan chooses does not run here.
    #[error("the kernel for {kernel} is refused: {refusal}")]
    NotRunnable {
        /// What it is for.
        kernel: String,
        /// Why.
        refusal: Refusal,
    },
    /// A choice whose configuration is none of the variant's.
    #[error("the plan's choice for {key}: {error}")]
    Config {
        /// What it is for.
        key: String,
        /// What is wrong.
        error: Box<ConfigError>,
    },
    /// Two choices for one tuning key.
    #[error("the plan has two choices for {0}: which one is meant?")]
    Twice(String),
    /// No variant at all serves an instance.
    #[error("no kernel of '{op}' runs at {key} on this device: {refusals}")]
    NoKernel {
        /// The op.
        op: &'static str,
        /// Where.
        key: String,
        /// Every variant's reason.
        refusals: String,
    },
    /// A kernel file is wrong.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Sizes or chunk that no plan can have.
    #[error("the plan's prefill chunk is {0}: it must be between 1 and 65535")]
    Chunk(u32),
    /// It says `invariant`, and has what varies with the batch.
    #[error(
        "the plan is batch-invariant: it must have an f32 state and equal fusions for decode, batched and prefill, and \
         neither choices nor a persistent kernel"
    )]
    Invariant,
    /// Multiprocessors that no device has.
    #[error("the plan is for {0} multiprocessors: there must be between 1 and 65535")]
    Multiprocessors(u32),
    /// A persistent kernel of no workgroups, or of more than any device dispatches.
    #[error("the plan's persistent kernel has {0} workgroups: it must have between 1 and 65535")]
    Workgroups(u32),
    /// A format to be interleaved that has no such layout.
    #[error("the plan interleaves {0}, whose blocks are aligned already: only Q8_0, Q4_0 and Q6_K can be interleaved")]
    Interleave(Format),
    /// A matrix to be laid out K-major whose x has no zeros.
    #[error("the plan lays {0:?} out K-major: only the x of FfnValue has zeros to be skipped")]
    KMajor(LayerWeight),
}

impl PlanError {
    /// The same, saying which file it is about.
    #[must_use]
    pub fn in_file(self, path: &Path) -> Self {
        match self {
            PlanError::Io { .. } | PlanError::Parse { .. } | PlanError::File { .. } | PlanError::InFile { .. } => self,
            error => PlanError::InFile { path: path.to_owned(), error: Box::new(error) },
        }
    }

    /// Of a kernel of no op, which no plan chooses.
    pub fn of_kernel(kernel: &str, error: KernelError) -> Self {
        match error {
            KernelError::Refused(refusal) => PlanError::NotRunnable { kernel: kernel.to_owned(), refusal },
            KernelError::Text(error) => error.into(),
        }
    }
}
