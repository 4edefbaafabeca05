//! Text to token ids and back, by greedy longest match: the World tokenizer of RWKV, or any vocabulary that knows
//! every byte.
//!
//! The ids equal the ids of the reference, `TRIE_TOKENIZER` of the PyPI package `rwkv`; `tests/tokenizer_golden.rs`
//! compares them. Nothing here knows a model: a tokenizer is a list of byte strings and a trie over them.

mod trie;
mod utf8_stream;
mod vocabulary;
mod vocabulary_text;

pub use utf8_stream::Utf8Stream;
pub use vocabulary::{END_OF_TEXT, VocabularyError};
pub use vocabulary_text::{VocabularyTextError, VocabularyTextFault, parse_vocabulary_text};

use std::sync::LazyLock;
use trie::Trie;
use vocabulary::Vocabulary;

/// Maps bytes to token ids and back.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    trie: Trie,
}

/// A token id that stands for no bytes because the vocabulary does not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("token {id} at position {position} is not in the vocabulary (ids below {len}, some of them unused)")]
pub struct UnknownToken {
    /// The id.
    pub id: u32,
    /// Its index in the ids given.
    pub position: usize,
    /// Number of ids of the vocabulary, unused ones included.
    pub len: usize,
}

impl Tokenizer {
    /// The World tokenizer (`rwkv_vocab_v20230424`): 65,529 tokens with ids 1 to 65,529. Built once, on first use.
    pub fn world() -> &'static Tokenizer {
        static WORLD: LazyLock<Tokenizer> = LazyLock::new(|| {
            let text = include_bytes!(concat!(env!("OUT_DIR"), "/rwkv_vocab_v20230424.txt"));
            let entries = parse_vocabulary_text(text).expect("the embedded vocabulary parses: every test builds it");
            Tokenizer::from_vocabulary(&entries).expect("the embedded vocabulary knows every byte")
        });
        &WORLD
    }

    /// The 256 bytes, each its own token.
    pub fn bytes() -> Tokenizer {
        let entries: Vec<[u8; 1]> = (0..=u8::MAX).map(|byte| [byte]).collect();
        Tokenizer::from_vocabulary(&entries).expect("it knows every byte: a test builds it")
    }

    /// A tokenizer over `entries`: entry i holds the bytes of token i, an empty entry is an unused id, entry 0 is
    /// [`END_OF_TEXT`], or the byte 0 of 256 bytes. Where two entries hold the same bytes, both decode and the later is
    /// encoded, as in the reference.
    ///
    /// # Errors
    /// Entry 0 is not empty, a byte has no token of its own (so that some text could not be encoded), or the
    /// vocabulary is larger than 32-bit offsets can address.
    pub fn from_vocabulary<B: AsRef<[u8]>>(entries: &[B]) -> Result<Tokenizer, VocabularyError> {
        let vocabulary = Vocabulary::new(entries.iter().map(AsRef::as_ref))?;
        let trie = Trie::new(&vocabulary);
        Ok(Tokenizer { vocabulary, trie })
    }

    /// The tokenizer of a model with only `vocab` ids: tokens from `vocab` on are never produced and unknown. A
    /// `vocab` beyond the vocabulary changes nothing.
    ///
    /// # Errors
    /// A byte has no token below `vocab`. The World's single bytes have the ids 1 to 256: it can be cut to 257.
    pub fn truncated(&self, vocab: usize) -> Result<Tokenizer, VocabularyError> {
        let entries: Vec<&[u8]> = self.vocabulary().take(vocab).collect();
        Tokenizer::from_vocabulary(&entries)
    }

    /// The ids of `bytes`, which need not be UTF-8: at each position the longest token that matches.
    pub fn encode(&self, bytes: &[u8]) -> Vec<u32> {
        // World tokens are 3 to 5 bytes long in most texts.
        let mut ids = Vec::with_capacity(bytes.len() / 3 + 1);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (id, len) = self.trie.longest_match(rest);
            ids.push(id);
            rest = &rest[len..];
        }
        ids
    }

    /// The bytes of `ids`. They may begin or end within a UTF-8 character: see [`Utf8Stream`].
    ///
    /// # Errors
    /// The first id that the vocabulary does not have.
    pub fn decode(&self, ids: &[u32]) -> Result<Vec<u8>, UnknownToken> {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        for (position, &id) in ids.iter().enumerate() {
            bytes.extend(self.token(id).ok_or(UnknownToken { id, position, len: self.len() })?);
        }
        Ok(bytes)
    }

    /// The bytes of one token, none for [`END_OF_TEXT`]; `None` where the id is unused or beyond the vocabulary.
    pub fn token(&self, id: u32) -> Option<&[u8]> {
        self.vocabulary.get(id).filter(|bytes| !bytes.is_empty() || id == END_OF_TEXT)
    }

    /// Every entry in order of ids; end-of-text and unused ids are empty.
    pub fn vocabulary(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.vocabulary.iter()
    }

    /// Number of ids, unused ones included. At least 256, as every byte has a token.
    #[allow(clippy::len_without_is_empty)] // none is empty
    pub fn len(&self) -> usize {
        self.vocabulary.len()
    }
}
