//! What can go wrong in a session.

use crate::sampling::{SampleError, SamplerOptionsError};
use crate::tokenizer::VocabularyError;
use std::path::PathBuf;
use wgoose_kernels::PlanError;
use wgoose_loader::LoadError;
use wgoose_runtime::RuntimeError;

/// What can go wrong in a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The model file.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The device, or what it runs.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The model's vocabulary cannot encode every text.
    #[error("this model can only be given token ids, no text: {0}")]
    Vocabulary(#[from] VocabularyError),
    /// The sampling options.
    #[error(transparent)]
    SamplerOptions(#[from] SamplerOptionsError),
    /// Sampling.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// An empty prompt.
    #[error("the prompt is empty: give at least one character")]
    EmptyPrompt,
    /// A state file.
    #[error("state file {}: {why}", path.display())]
    StateFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}
