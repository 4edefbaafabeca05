//! Why an adapter was not merged.

use std::path::PathBuf;
use wgoose_graph::{Format, Weight};

/// Why [`merge`](super::merge) changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// A tensor is of no kind that can be merged.
    #[error("tensor '{tensor}' cannot be merged: it is {why}")]
    Unknown {
        /// Its name.
        tensor: String,
        /// What it is.
        why: &'static str,
    },
    /// A tensor belongs to a weight that the model lacks.
    #[error(
        "tensor '{tensor}' belongs to no weight of this model, which has {layers} layers: an adapter fits the model \
        it was trained for, with the names of its authors' checkpoint"
    )]
    OtherModel {
        /// Its name.
        tensor: String,
        /// The model's layers.
        layers: u32,
    },
    /// A tensor does not fit the weight.
    #[error("tensor '{tensor}' has shape {dims:?}, but {weight} is [{rows}, {cols}]: expected {expected}")]
    Shape {
        /// Its name.
        tensor: String,
        /// Its sizes, slowest-varying first.
        dims: Vec<usize>,
        /// The weight it belongs to.
        weight: Weight,
        /// The weight's rows.
        rows: usize,
        /// The weight's columns.
        cols: usize,
        /// What would fit.
        expected: &'static str,
    },
    /// A LoRA is not complete.
    #[error("the adapter of {weight} is not complete: it lacks {missing}")]
    Incomplete {
        /// The weight it belongs to.
        weight: Weight,
        /// The name of the half that is not there.
        missing: &'static str,
    },
    /// Two tensors have one purpose.
    #[error("{weight} is changed twice: tensor '{tensor}' is not alone")]
    Twice {
        /// The weight.
        weight: Weight,
        /// The name of the second tensor.
        tensor: String,
    },
    /// The factor of a LoRA is not known.
    #[error(
        "it is a LoRA and does not say by how much: give the scale, alpha / rank of its training, behind its name \
        (FILE:1 if they were equal); if it is a PiSSA, give its init_pissa.pth too (--adapter-initial)"
    )]
    NoScale,
    /// It changes no matrix.
    #[error("there is no LoRA, PiSSA, DiSHA (Bone) or MiSS in it: it is no adapter")]
    Nothing,
    /// There are initial halves, but nothing of which they can be.
    #[error("'{}' is for a PiSSA, but the adapter has no LoRA: leave it out", path.display())]
    NoPissa {
        /// The file of initial halves.
        path: PathBuf,
    },
    /// `adapter_config.json` asks for something else.
    #[error("adapter_config.json: {why}")]
    Config {
        /// What is wrong with it.
        why: String,
    },
    /// A merged number is none, or beyond the format's range.
    #[error("{weight} would hold {value:e}, which {format} cannot: is the scale right?")]
    Range {
        /// The weight.
        weight: Weight,
        /// The number.
        value: f32,
        /// The format in which it would be kept.
        format: Format,
    },
}
