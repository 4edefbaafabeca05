//! Text as it comes: tokens in, text out, until it ends.

use super::options::{Ending, GenerateOptions, Generated};
use super::stop_strings::StopStrings;
use crate::tokenizer::{END_OF_TEXT, Tokenizer, Utf8Stream};

/// A text that is being generated.
#[derive(Debug)]
pub(crate) struct Text {
    max_tokens: usize,
    stop_tokens: Vec<u32>,
    stop_strings: StopStrings,
    characters: Utf8Stream,
    tokens: Vec<u32>,
    ending: Option<Ending>,
}

impl Text {
    /// A text without tokens; it has ended if it is to have none.
    pub(crate) fn new(options: &GenerateOptions) -> Self {
        let end = options.grammar.as_ref().map(|_| END_OF_TEXT);
        Text {
            max_tokens: options.max_tokens,
            stop_tokens: options.stop_tokens.iter().copied().chain(end).collect(),
            stop_strings: StopStrings::new(&options.stop_strings),
            characters: Utf8Stream::new(),
            tokens: Vec::new(),
            ending: (options.max_tokens == 0).then_some(Ending::MaxTokens),
        }
    }

    /// Appends a token; returns the text that is certain by now. `None`: the token is no part of the text, which has ended.
    pub(crate) fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> Option<String> {
        if self.ending.is_some() {
            return None;
        }
        if self.stop_tokens.contains(&token) {
            self.ending = Some(Ending::StopToken(token));
            return None;
        }
        self.tokens.push(token);
        // Rows beyond the vocabulary have no text. Stop strings are looked for in what is given, where bytes that are no
        // character read U+FFFD.
        let characters = self.characters.push(tokenizer.token(token).unwrap_or_default());
        let (bytes, stop) = self.stop_strings.push(characters.as_bytes());
        self.ending = match stop {
            Some(index) => Some(Ending::StopString(index)),
            None => (self.tokens.len() >= self.max_tokens).then_some(Ending::MaxTokens),
        };
        Some(text_of(&bytes))
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ending.is_some()
    }

    /// How many tokens it has.
    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// How many tokens it may have yet.
    pub(crate) fn left(&self) -> usize {
        self.max_tokens - self.tokens.len()
    }

    /// The text that was held back, and what was generated.
    pub(crate) fn finish(mut self, prompt_tokens: usize) -> (String, Generated) {
        let rest = match self.ending {
            // What came with the last token behind the string is no part of the text.
            Some(Ending::StopString(_)) => String::new(),
            _ => {
                let (mut bytes, _) = self.stop_strings.push(self.characters.finish().as_bytes());
                bytes.extend(self.stop_strings.finish());
                text_of(&bytes)
            }
        };
        let ending = self.ending.unwrap_or(Ending::Caller);
        (rest, Generated { prompt_tokens, tokens: self.tokens, ending })
    }
}

/// Stop strings begin and end with characters, and so do the pieces between them.
fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
