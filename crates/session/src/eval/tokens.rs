//! The tokens of a text that is never in memory as a whole: the same as if it were.

use crate::tokenizer::Tokenizer;
use std::collections::VecDeque;
use std::io::{self, Read};

/// Bytes read at a time.
const BLOCK: u64 = 64 << 10;

/// Encodes a text as it is read.
pub(super) struct Tokens<'a> {
    tokenizer: &'a Tokenizer,
    text: &'a mut dyn Read,
    block: u64,
    /// Bytes of the longest token: what must be there to know the token at a place.
    longest: usize,
    /// Read, not encoded.
    bytes: Vec<u8>,
    /// Encoded, not taken.
    ready: VecDeque<u32>,
    ended: bool,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer, text: &'a mut dyn Read) -> Self {
        let longest = tokenizer.vocabulary().map(<[u8]>::len).max().unwrap_or(1);
        let (bytes, ready) = (Vec::new(), VecDeque::new());
        Tokens { tokenizer, text, block: BLOCK, longest, bytes, ready, ended: false }
    }

    /// The next tokens, `count` of them unless the text ends before.
    pub(super) fn next(&mut self, count: usize) -> io::Result<Vec<u32>> {
        while self.ready.len() < count && !self.ended {
            self.encode_block()?;
        }
        Ok(self.ready.drain(..count.min(self.ready.len())).collect())
    }

    fn encode_block(&mut self) -> io::Result<()> {
        let before = self.bytes.len();
        (&mut *self.text).take(self.block).read_to_end(&mut self.bytes)?;
        self.ended = self.bytes.len() == before;
        // A token that begins later could be a longer one once more of the text is there.
        let end = if self.ended { self.bytes.len() } else { (self.bytes.len() + 1).saturating_sub(self.longest) };
        let mut at = 0;
        for id in self.tokenizer.encode(&self.bytes) {
            if at >= end {
                break;
            }
            self.ready.push_back(id);
            at += self.tokenizer.token(id).map_or(0, <[u8]>::len);
        }
        self.bytes.drain(..at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_give_the_tokens_of_the_whole(
            words in prop::collection::vec(prop_oneof![Just("goose "), Just("          "), Just("    \n\n"), Just("über"), Just("鹅")], 0..60),
            block in 1u64..40,
            count in 1usize..30,
        ) {
            let text = words.concat().into_bytes();
            let mut reader = &text[..];
            let mut tokens = Tokens::new(Tokenizer::world(), &mut reader);
            tokens.block = block;
            let mut all: Vec<u32> = Vec::new();
            loop {
                let next = tokens.next(count).unwrap();
                all.extend(&next);
                if next.len() < count {
                    break;
                }
            }
            prop_assert_eq!(all, Tokenizer::world().encode(&text));
        }
    }
}
