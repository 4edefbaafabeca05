//! Errors of a session.

use crate::StoreError;
use crate::grammar::GrammarError;
use crate::printable::printable;
use crate::sampling::{SampleError, SamplerOptionsError};
use crate::vocabulary::ModelVocabularyError;
use std::path::PathBuf;
use wgoose_kernels::PlanError;
use wgoose_loader::{EmbeddingHead, LoadError};
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
    /// The CPU reference is not batch-invariant.
    #[error("batch-invariant results need a GPU: the CPU reference rounds the state after each pass")]
    InvariantOnCpu,
    /// There is no vocabulary for the model.
    #[error("this model can only be given token ids, no text: {0}")]
    Vocabulary(#[source] ModelVocabularyError),
    /// The given vocabulary.
    #[error(transparent)]
    GivenVocabulary(ModelVocabularyError),
    /// The sampling options.
    #[error(transparent)]
    SamplerOptions(#[from] SamplerOptionsError),
    /// Sampling.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// The grammar.
    #[error(transparent)]
    Grammar(#[from] GrammarError),
    /// As many sequences as there is room for.
    #[error("all {0} places of the batch are taken: wait until a sequence ends, or let one leave")]
    NoRoom(usize),
    /// A sequence that has left, or never joined.
    #[error("sequence {0} is not in the batch: it has ended, has left, or never joined")]
    NoSequence(crate::SequenceId),
    /// A model whose arithmetic breaks.
    #[error("the model computes {value}: {}", found.as_ref().map_or("no op of a trace shows where", String::as_str))]
    NotFinite {
        /// What came out: NaN or an infinity.
        value: f32,
        /// The first op that makes such a number, with its layer.
        found: Option<String>,
    },
    /// An empty prompt.
    #[error("the prompt is empty: give at least one character")]
    EmptyPrompt,
    /// An embedding head that the model does not have.
    #[error(
        "this model has no embedding head '{wanted}': {}",
        if names.is_empty() { "it has none, so leave the head out".to_owned() } else { format!("it has {names}") }
    )]
    NoEmbeddingHead {
        /// The head.
        wanted: EmbeddingHead,
        /// The heads that the model has.
        names: String,
    },
    /// An embedding head of hidden states of a layer.
    #[error("embedding heads read the final hidden state: leave the layer out, or the head")]
    HeadLevel,
    /// The end of a text inside a text.
    #[error(
        "token 65535 at position {position} of text {text} ends a text, and others follow it: embed the parts one by one"
    )]
    EndInText {
        /// Index of the text.
        text: usize,
        /// Position in it.
        position: usize,
    },
    /// The file of the embedding cache.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A state file of another model.
    #[error(
        "state file {}: it belongs to the model with fingerprint {theirs}, this one has {ours}: open the model that it was saved with",
        path.display()
    )]
    OtherModel {
        /// The file.
        path: PathBuf,
        /// Fingerprint of the model that it was saved with.
        theirs: String,
        /// Fingerprint of this model.
        ours: String,
    },
    /// A state file.
    #[error("state file {}: {why}", path.display())]
    StateFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// An error and its causes in one line, as [`printable`] has it: a cause whose text the error has is not said twice.
pub fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    printable(&text.replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{what}")]
    struct Failure {
        what: &'static str,
        source: Option<Box<Failure>>,
    }

    #[test]
    fn causes_are_said_once() {
        let caused = |what, source| Failure { what, source: Some(Box::new(source)) };
        let disk = || Failure { what: "the disk\nis full", source: None };
        assert_eq!(one_line(&caused("cannot write", disk())), "cannot write: the disk is full");
        let said = caused("cannot write: the disk\nis full", disk());
        assert_eq!(one_line(&caused("state", said)), "state: cannot write: the disk is full");
    }
}
