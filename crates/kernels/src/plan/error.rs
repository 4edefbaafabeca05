//! Why a plan cannot be used.

use super::SCHEMA;
use crate::{Refusal, SpecialiseError};
use std::path::PathBuf;
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
    /// No variant at all serves a site.
    #[error("no kernel of '{op}' runs at {site} on this device: {refusals}")]
    NoKernel {
        /// The op.
        op: &'static str,
        /// The site.
        site: String,
        /// Every variant's reason.
        refusals: String,
    },
    /// A kernel file cannot be read.
    #[error(transparent)]
    Source(#[from] SpecialiseError),
    /// Sizes or chunk that no plan can have.
    #[error("the plan's prefill chunk is {0}: it must be between 1 and 65535")]
    Chunk(u32),
    /// A persistent step of no workgroups, or of more than any device dispatches.
    #[error("the plan's persistent step has {0} workgroups: it must have between 1 and 65535")]
    Workgroups(u32),
    /// A format to be repacked that has no tiles.
    #[error("the plan repacks {0}, which has no tiles: only Q8_0, Q4_0 and Q6_K can be repacked")]
    Repack(Format),
    /// A matrix to be brought in columns that meets no zeros.
    #[error("the plan brings {0:?} in columns: only FfnValue meets zeros that can be left out")]
    Columns(LayerWeight),
}
