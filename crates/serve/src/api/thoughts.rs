//! Thoughts of reasoning models: the text between `<think>` and `</think>` at the beginning of an answer is sent as
//! `reasoning_content`, the rest as `content`, as in the interfaces of DeepSeek, vLLM and llama.cpp.

use wgoose_session::tools::ToolCall;

/// What begins and ends thoughts.
const OPENING: &str = "<think>";
const CLOSING: &str = "</think>";

/// Splits an answer that arrives in pieces.
#[derive(Debug)]
pub(super) struct Thoughts {
    phase: Phase,
    /// Text that may be part of a tag, or blanks before the answer.
    held: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing but blanks and a part of the opening tag has come.
    Beginning,
    /// Nothing but blanks has come after the opening tag.
    BeforeThoughts,
    Thinking,
    /// Nothing but blanks has come after the thoughts.
    BeforeAnswer,
    Answer,
}

/// A piece of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) thoughts: String,
    pub(super) answer: String,
    /// The calls of tools that are complete.
    pub(super) calls: Vec<NumberedCall>,
}

/// A call with the id that the client gives its result with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NumberedCall {
    pub(super) id: String,
    pub(super) call: ToolCall,
}

impl Split {
    pub(super) fn is_empty(&self) -> bool {
        self.thoughts.is_empty() && self.answer.is_empty() && self.calls.is_empty()
    }
}

impl Thoughts {
    /// An answer whose prompt ends with that text: the opening tag may have begun there.
    pub(super) fn after(prompt: &str) -> Self {
        let begun = prompt.rfind(OPENING).map_or_else(|| beginning_at_end(prompt, OPENING), |at| prompt.len() - at);
        Thoughts { phase: Phase::Beginning, held: prompt[prompt.len() - begun..].to_owned() }
    }

    /// Takes the next piece of text.
    pub(super) fn push(&mut self, text: &str) -> Option<Split> {
        self.held.push_str(text);
        let mut split = Split::default();
        loop {
            let before = self.phase;
            match self.phase {
                Phase::Beginning => {
                    let begun = self.held.trim_start();
                    if let Some(thoughts) = begun.strip_prefix(OPENING) {
                        self.held = thoughts.to_owned();
                        self.phase = Phase::BeforeThoughts;
                    } else if !OPENING.starts_with(begun) {
                        self.phase = Phase::BeforeAnswer;
                    }
                }
                Phase::BeforeThoughts => {
                    self.held = self.held.trim_start().to_owned();
                    if !self.held.is_empty() {
                        self.phase = Phase::Thinking;
                    }
                }
                Phase::Thinking => match self.held.split_once(CLOSING) {
                    Some((thoughts, answer)) => {
                        split.thoughts += thoughts.trim_end();
                        self.held = answer.to_owned();
                        self.phase = Phase::BeforeAnswer;
                    }
                    None => {
                        // Blanks before the closing tag are no thoughts.
                        let end = self.held.len() - beginning_at_end(&self.held, CLOSING);
                        let rest = self.held.split_off(self.held[..end].trim_end().len());
                        split.thoughts += &std::mem::replace(&mut self.held, rest);
                    }
                },
                Phase::BeforeAnswer => {
                    self.held = self.held.trim_start().to_owned();
                    if !self.held.is_empty() {
                        self.phase = Phase::Answer;
                    }
                }
                Phase::Answer => split.answer += &std::mem::take(&mut self.held),
            }
            if self.phase == before {
                return Some(split).filter(|split| !split.is_empty());
            }
        }
    }

    /// The text that was held back, at the end of the answer.
    pub(super) fn finish(&mut self) -> Option<Split> {
        let held = std::mem::take(&mut self.held);
        let split = match self.phase {
            Phase::Beginning => Split { answer: held.trim_start().to_owned(), ..Split::default() },
            Phase::Thinking => Split { thoughts: held.trim_end().to_owned(), ..Split::default() },
            Phase::BeforeThoughts | Phase::BeforeAnswer | Phase::Answer => Split::default(),
        };
        Some(split).filter(|split| !split.is_empty())
    }
}

/// Length of the longest beginning of `tag` with which `text` ends.
fn beginning_at_end(text: &str, tag: &str) -> usize {
    (1..tag.len()).rev().find(|&len| text.ends_with(&tag[..len])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(prompt: &str, pieces: &[&str]) -> (String, String) {
        let mut thoughts = Thoughts::after(prompt);
        let mut all = Split::default();
        let mut add = |split: Option<Split>| {
            let split = split.unwrap_or_default();
            all.thoughts += &split.thoughts;
            all.answer += &split.answer;
        };
        pieces.iter().for_each(|piece| add(thoughts.push(piece)));
        add(thoughts.finish());
        (all.thoughts, all.answer)
    }

    #[test]
    fn thoughts_are_split_from_the_answer() {
        let of = |thoughts: &str, answer: &str| (thoughts.to_owned(), answer.to_owned());
        assert_eq!(split("Assistant:", &[" Honk.\n\nHonk. "]), of("", "Honk.\n\nHonk. "));
        assert_eq!(split("Assistant: <think", &[">\nA goose.\n</think>\n\nHonk."]), of("A goose.", "Honk."));
        assert_eq!(split("Assistant: <think>", &["A goose.</think>Honk."]), of("A goose.", "Honk."));
        assert_eq!(split("Assistant: <think>\n</think", &[">\nHonk."]), of("", "Honk."));
        assert_eq!(split("Assistant: <think>嗯", &["，鹅。</think>Honk."]), of("嗯，鹅。", "Honk."));
        assert_eq!(split("Assistant:", &[" <think>a < b</think> c"]), of("a < b", "c"));
        assert_eq!(split("Assistant:", &[" <thinker"]), of("", "<thinker"));
        assert_eq!(split("Assistant:", &[" <th"]), of("", "<th"));
        assert_eq!(split("Assistant: <think", &[">never ends"]), of("never ends", ""));
        assert_eq!(split("Assistant:", &["<think></think> "]), of("", ""));
        assert_eq!(split("Assistant:", &["a <think>b</think>"]), of("", "a <think>b</think>"));
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(pieces in prop::collection::vec("(<think>|</think>|<|/|th|ink>| |\n|a){0,3}", 0..12)) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let whole = pieces.concat();
            for prompt in ["Assistant:", "Assistant: <think"] {
                prop_assert_eq!(split(prompt, &pieces), split(prompt, &[&whole]));
            }
        }
    }
}
