//! The end of an answer in a chat: which of its bytes the state contains, and what comes before the next message.

use crate::tokenizer::Tokenizer;
use crate::{Ending, Generated};

/// The end of an answer.
#[derive(Clone, Debug)]
pub(crate) struct AnswerEnd {
    /// Bytes that the state contains; beyond the answer there may be the beginning of a stop string.
    read: Vec<u8>,
    /// Bytes of the answer that the state does not contain.
    unread: Vec<u8>,
    /// Length of the answer in bytes.
    length: usize,
}

impl AnswerEnd {
    /// The end of a generated answer.
    pub(crate) fn new(tokenizer: &Tokenizer, generated: &Generated, stop_strings: &[String]) -> Self {
        let bytes = |tokens: &[u32]| -> Vec<u8> {
            tokens.iter().flat_map(|token| tokenizer.token(*token).unwrap_or_default()).copied().collect()
        };
        let read = bytes(generated.read());
        let mut unread = bytes(generated.unread().as_slice());
        let said = [&read[..], &unread].concat();
        let mut length = said.len();
        if let Ending::StopString(index) = generated.ending {
            // The answer has the bytes before a stop string, also those of the token that completes it.
            let stop = stop_strings[index].as_bytes();
            length = said.windows(stop.len()).position(|part| part == stop).unwrap_or(read.len());
            unread.truncate(length.saturating_sub(read.len()));
        }
        AnswerEnd { read, unread, length }
    }

    /// The bytes of the answer.
    pub(crate) fn answer(&self) -> Vec<u8> {
        let mut answer = self.said();
        answer.truncate(self.length);
        answer
    }

    /// The answer, and the part of a stop string that the state contains.
    fn said(&self) -> Vec<u8> {
        [&self.read[..], &self.unread].concat()
    }

    /// The bytes to read before the next message: the rest of the answer, and of what comes `next`, which may have
    /// begun.
    pub(crate) fn to_next_message(&self, next: &str) -> Vec<u8> {
        let said = self.said();
        let next = next.as_bytes();
        let overlap = (0..=next.len()).rev().find(|&len| said.ends_with(&next[..len])).unwrap_or(0);
        [&self.unread, &next[overlap..]].concat()
    }
}
