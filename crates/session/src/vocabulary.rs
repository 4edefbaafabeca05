//! Which vocabulary a model has: its file's, the one that its number of tokens is known to mean, or a given one. None
//! is guessed: a model with another tokenizer's ids writes nonsense without a word.

use crate::tokenizer::{Tokenizer, VocabularyError, VocabularyTextError, parse_vocabulary_text};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use wgoose_loader::Model;

/// Rows of the embedding of a World model: 65,530 tokens, padded.
const WORLD_ROWS: usize = 65_536;
/// Rows of models trained on the Pile: GPT-NeoX's tokens, with and without padding (BlinkDL/RWKV-LM#285).
const PILE_ROWS: [usize; 2] = [50_277, 50_304];
/// What llama.cpp calls this kind of vocabulary (`tokenizer.ggml.model`).
const LONGEST_MATCH: &str = "rwkv";
/// What llama.cpp has in place of a kind where a file has no vocabulary.
const NO_VOCABULARY: &str = "no_vocab";

/// Where the vocabulary of a model comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VocabularyChoice {
    /// The model's file. Without a vocabulary there, 65,536 tokens are the World's and 256 the bytes; models of other
    /// sizes can only be given token ids.
    #[default]
    Find,
    /// The World's, cut to the tokens that the model has.
    World,
    /// A text file such as `rwkv_vocab_v20230424.txt`: one `id literal length` line per token, the literal in Python's
    /// notation.
    File(PathBuf),
}

/// Why there is no vocabulary for a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelVocabularyError {
    /// Some text could not be encoded.
    #[error(transparent)]
    Incomplete(#[from] VocabularyError),
    /// A model of the Pile.
    #[error("{0} tokens are those of models of the Pile, whose tokenizer, GPT-NeoX's (BPE), is not built in")]
    Pile(usize),
    /// Neither the file nor the number of tokens says which vocabulary it is.
    #[error(
        "the file has no vocabulary, and none of {0} tokens is known: give --vocab FILE, or --vocab world if it is the World's"
    )]
    Unknown(usize),
    /// A vocabulary of another kind in the file.
    #[error("the file's vocabulary is of the kind '{0}', and only '{LONGEST_MATCH}' is built in")]
    Kind(String),
    /// A given vocabulary with tokens beyond the model's.
    #[error("vocabulary {}: it has tokens up to id {}, the model has {rows}: it is another model's", path.display(), tokens - 1)]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its ids.
        tokens: usize,
        /// The model's.
        rows: usize,
    },
    /// A given vocabulary that is malformed.
    #[error("{}: {fault}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line.
        fault: VocabularyTextError,
    },
    /// A given vocabulary that cannot be read.
    #[error("vocabulary {}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
}

impl VocabularyChoice {
    /// As people write it: `world`, or a file; nothing is [`VocabularyChoice::Find`]. A file of that name is `./world`.
    pub fn named(name: Option<OsString>) -> VocabularyChoice {
        match name {
            None => VocabularyChoice::Find,
            Some(name) if name == "world" => VocabularyChoice::World,
            Some(name) => VocabularyChoice::File(name.into()),
        }
    }

    /// The name; the other way round than [`VocabularyChoice::named`].
    pub fn name(&self) -> Option<OsString> {
        match self {
            VocabularyChoice::Find => None,
            VocabularyChoice::World => Some("world".into()),
            VocabularyChoice::File(path) => Some(path.clone().into()),
        }
    }

    /// The tokenizer of a model with this vocabulary.
    ///
    /// # Errors
    /// No vocabulary is known for the model, or the given one is none for it.
    pub fn tokenizer(&self, model: &Model) -> Result<Tokenizer, ModelVocabularyError> {
        let rows = model.shape().vocab as usize;
        match self {
            VocabularyChoice::Find => found(model, rows),
            VocabularyChoice::World => Ok(Tokenizer::world().truncated(rows)?),
            VocabularyChoice::File(path) => {
                let entries = entries(path)?;
                match entries.len() {
                    tokens if tokens > rows => Err(ModelVocabularyError::TooLong { path: path.clone(), tokens, rows }),
                    _ => Ok(Tokenizer::from_vocabulary(&entries)?),
                }
            }
        }
    }

    /// The tokenizer without a model: the World's where nothing else is chosen.
    ///
    /// # Errors
    /// The file.
    pub fn tokenizer_alone(&self) -> Result<Tokenizer, ModelVocabularyError> {
        match self {
            VocabularyChoice::Find | VocabularyChoice::World => Ok(Tokenizer::world().clone()),
            VocabularyChoice::File(path) => Ok(Tokenizer::from_vocabulary(&entries(path)?)?),
        }
    }
}

/// The vocabulary of the file, or the one that the number of rows is known to mean.
fn found(model: &Model, rows: usize) -> Result<Tokenizer, ModelVocabularyError> {
    // `rwkv` in GGUF files, classes such as `RwkvTokenizer` elsewhere.
    let is_known = |kind: &&String| kind.to_ascii_lowercase().contains(LONGEST_MATCH);
    if let Some(kind) = model.about().tokenizer.as_ref().filter(|kind| !is_known(kind))
        && kind != NO_VOCABULARY
    {
        return Err(ModelVocabularyError::Kind(kind.clone()));
    }
    match model.vocabulary() {
        Some(vocabulary) => Ok(Tokenizer::from_vocabulary(&vocabulary)?),
        None if rows == WORLD_ROWS => Ok(Tokenizer::world().clone()),
        None if rows == 256 => Ok(Tokenizer::bytes()),
        None if PILE_ROWS.contains(&rows) => Err(ModelVocabularyError::Pile(rows)),
        None => Err(ModelVocabularyError::Unknown(rows)),
    }
}

fn entries(path: &Path) -> Result<Vec<Vec<u8>>, ModelVocabularyError> {
    let text = wgoose_files::read(path)
        .map_err(|why| ModelVocabularyError::Unreadable { path: path.to_owned(), why: why.to_string() })?;
    parse_vocabulary_text(&text).map_err(|fault| ModelVocabularyError::Malformed { path: path.to_owned(), fault })
}
