//! The vocabulary of a model, as the parser and the search for triggers need it.

use crate::tokenizer::{END_OF_TEXT, Tokenizer};
use llguidance::toktrie::{TokRxInfo, TokTrie, TokenId, TokenizerEnv};

/// Tokens, their trie, and their order by bytes.
pub(super) struct GrammarVocabulary {
    tokenizer: Tokenizer,
    trie: TokTrie,
    /// Tokens with text, sorted by their bytes.
    sorted: Vec<u32>,
    /// Tokens with text, and the end of text: a bit each.
    all: Vec<u32>,
}

impl GrammarVocabulary {
    /// The vocabulary of a model with `rows` token ids, of which some may have no text.
    pub(super) fn new(tokenizer: Tokenizer, rows: usize) -> Self {
        let rows = rows.max(tokenizer.len());
        let mut words: Vec<Vec<u8>> = tokenizer.vocabulary().map(<[u8]>::to_vec).collect();
        words.resize(rows, Vec::new());
        // In a vocabulary of 256 bytes it is the byte 0 too.
        words[END_OF_TEXT as usize].clear();
        let trie = TokTrie::from(&TokRxInfo::new(rows as u32, END_OF_TEXT), &words);
        let mut sorted: Vec<u32> = (0..rows as u32).filter(|token| !words[*token as usize].is_empty()).collect();
        sorted.sort_by(|a, b| words[*a as usize].cmp(&words[*b as usize]));
        let mut all = vec![0; rows.div_ceil(32)];
        sorted.iter().chain(&[END_OF_TEXT]).for_each(|token| all[*token as usize / 32] |= 1 << (token % 32));
        GrammarVocabulary { tokenizer, trie, sorted, all }
    }

    /// Number of token ids.
    pub(super) fn rows(&self) -> usize {
        self.trie.vocab_size()
    }

    /// The bytes of a token.
    pub(super) fn bytes(&self, token: u32) -> &[u8] {
        match token {
            END_OF_TEXT => &[],
            _ => self.tokenizer.token(token).unwrap_or_default(),
        }
    }

    /// The tokens of a text.
    pub(super) fn encode(&self, bytes: &[u8]) -> Vec<u32> {
        self.tokenizer.encode(bytes)
    }

    /// Words of a mask.
    pub(super) fn words(&self) -> usize {
        self.all.len()
    }

    /// Every token with text, and the end of text.
    pub(super) fn all(&self) -> &[u32] {
        &self.all
    }

    /// The tokens whose text begins with that.
    pub(super) fn beginning_with(&self, text: &[u8]) -> &[u32] {
        let begin = self.sorted.partition_point(|token| self.bytes(*token) < text);
        let matching = self.sorted[begin..].partition_point(|token| self.bytes(*token).starts_with(text));
        &self.sorted[begin..begin + matching]
    }

    /// The tokens whose text contains that.
    pub(super) fn containing(&self, text: &[u8]) -> Vec<u32> {
        let contains = |token: &&u32| find(self.bytes(**token), text).is_some();
        self.sorted.iter().filter(contains).copied().collect()
    }
}

/// The end of the first place where `bytes` contains `text`, which is not empty.
pub(super) fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text).map(|begin| begin + text.len())
}

impl TokenizerEnv for GrammarVocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.encode(bytes)
    }
}
