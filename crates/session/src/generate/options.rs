//! How to generate, and what was generated.

use crate::grammar::Grammar;
use crate::sampling::SamplerOptions;
use crate::tokenizer::END_OF_TEXT;

/// How to generate. The default ends with end-of-text, after 128 tokens at most.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateOptions {
    /// How tokens are chosen.
    pub sampling: SamplerOptions,
    /// Most tokens to generate.
    pub max_tokens: usize,
    /// Tokens that end the text and are no part of it.
    pub stop_tokens: Vec<u32>,
    /// Texts that end the text as soon as one is complete and are no part of it. Empty ones mean nothing.
    pub stop_strings: Vec<String>,
    /// With every token of the text, its log-probability and those of as many of the likeliest tokens, at most
    /// [`MOST_LISTED`](wgoose_runtime::MOST_LISTED).
    pub logprobs: Option<u8>,
    /// The grammar of the text. Where nothing else may follow, it ends with end-of-text, whatever the stop tokens are.
    pub grammar: Option<Grammar>,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        GenerateOptions {
            sampling: SamplerOptions::default(),
            max_tokens: 128,
            stop_tokens: vec![END_OF_TEXT],
            stop_strings: Vec::new(),
            logprobs: None,
            grammar: None,
        }
    }
}

/// Why a text ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A stop token was chosen.
    StopToken(u32),
    /// The stop string of that index is complete.
    StopString(usize),
    /// There are as many tokens as were asked for.
    MaxTokens,
    /// The caller ended it.
    Caller,
}

/// What was generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens generated, those of a stop string among them, a stop token not. Of the tokens chosen all but the last have
    /// been read: see [`Generated::unread`].
    pub tokens: Vec<u32>,
    /// Why there are no more.
    pub ending: Ending,
}

impl Generated {
    /// Those of the tokens that the state has read: all but the last one, or all if a stop token came after them.
    pub fn read(&self) -> &[u32] {
        let unread = usize::from(!matches!(self.ending, Ending::StopToken(_)));
        &self.tokens[..self.tokens.len().saturating_sub(unread)]
    }

    /// The last of the tokens, if the state has not read it: going on begins with it, unless it only completed a
    /// stop string.
    pub fn unread(&self) -> Option<u32> {
        self.tokens.get(self.read().len()).copied()
    }
}
