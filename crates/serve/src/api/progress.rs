//! One text in progress: what its events have told so far.

use super::thoughts::{NumberedCall, Split, Thoughts};
use crate::engine::TextEvent;
use crate::states::new_id;
use std::sync::Arc;
use wgoose_session::sampling::TokenLogprobs;
use wgoose_session::tools::{CallReader, call_text};
use wgoose_session::{Ending, Generated, StateData};

/// One text of an answer.
pub(super) struct TextProgress {
    /// Tokens of its prompt from the prefix cache.
    pub(super) cached: usize,
    /// Splits the thoughts from the answer of a chat.
    thoughts: Option<Thoughts>,
    /// Finds the calls in the answer, if there are tools.
    calls: Option<CallReader>,
    /// The text so far.
    pub(super) split: Split,
    /// Log-probabilities of its tokens, if the request asks for them.
    pub(super) logprobs: Vec<TokenLogprobs>,
    /// The state at its end, if it is stored.
    pub(super) state: Option<Arc<StateData>>,
    pub(super) generated: Option<Generated>,
}

/// What to send after an event.
pub(super) enum Told {
    Nothing,
    Text(Split),
    /// The rest of the text.
    Ended(Option<Split>),
    Failed(String),
}

impl TextProgress {
    /// A text that continues a prompt.
    pub(super) fn of_prompt() -> Self {
        TextProgress {
            cached: 0,
            thoughts: None,
            calls: None,
            split: Split::default(),
            logprobs: Vec::new(),
            state: None,
            generated: None,
        }
    }

    /// The answer of a chat, whose prompt ends with that text.
    pub(super) fn of_chat(opening: &str, calls: Option<CallReader>) -> Self {
        TextProgress { thoughts: Some(Thoughts::after(opening)), calls, ..TextProgress::of_prompt() }
    }

    /// Records an event.
    pub(super) fn take(&mut self, event: TextEvent) -> Told {
        match event {
            TextEvent::Admitted(cached) => {
                self.cached = cached;
                Told::Nothing
            }
            TextEvent::Logprobs(logprobs) => {
                self.logprobs.push(logprobs);
                Told::Nothing
            }
            TextEvent::Text(text) => {
                let split = match &mut self.thoughts {
                    Some(thoughts) => thoughts.push(&text),
                    None => Some(Split { answer: text, ..Split::default() }),
                };
                let split = self.with_calls(split, false);
                self.add(split).map_or(Told::Nothing, Told::Text)
            }
            TextEvent::State(state) => {
                self.state = Some(state);
                Told::Nothing
            }
            TextEvent::Ended(generated) => {
                self.generated = Some(generated);
                let rest = self.thoughts.as_mut().and_then(Thoughts::finish);
                let rest = self.with_calls(rest, true);
                Told::Ended(self.add(rest))
            }
            TextEvent::Failed(why) => Told::Failed(why),
        }
    }

    /// Finds the calls in the answer.
    fn with_calls(&mut self, split: Option<Split>, is_end: bool) -> Option<Split> {
        let Some(reader) = &mut self.calls else { return split };
        let mut split = split.unwrap_or_default();
        let mut read = reader.push(&split.answer);
        if is_end {
            let rest = reader.finish();
            read.text += &rest.text;
            read.calls.extend(rest.calls);
        }
        split.answer = read.text;
        split.calls = read.calls.into_iter().map(|call| NumberedCall { id: call_id(), call }).collect();
        Some(split).filter(|split| !split.is_empty())
    }

    /// The answer as the model wrote it, with its calls.
    pub(super) fn written(&self) -> String {
        let calls: Vec<_> = self.split.calls.iter().map(|numbered| numbered.call.clone()).collect();
        if calls.is_empty() { self.split.answer.clone() } else { call_text(&self.split.answer, &calls) }
    }

    fn add(&mut self, split: Option<Split>) -> Option<Split> {
        let split = split?;
        self.split.thoughts += &split.thoughts;
        self.split.answer += &split.answer;
        self.split.calls.extend_from_slice(&split.calls);
        Some(split)
    }

    /// Number of generated tokens.
    pub(super) fn tokens(&self) -> usize {
        self.generated.as_ref().map_or(0, |generated| generated.tokens.len())
    }

    /// Whether it ended at `max_tokens`.
    pub(super) fn is_cut(&self) -> bool {
        self.generated.as_ref().is_some_and(|generated| generated.ending == Ending::MaxTokens)
    }

    /// `finish_reason` of a text that has ended.
    pub(super) fn reason(&self) -> Option<&'static str> {
        self.generated.as_ref()?;
        Some(match self.is_cut() {
            true => "length",
            false if self.split.calls.is_empty() => "stop",
            false => "tool_calls",
        })
    }
}

/// An id that no other call has.
fn call_id() -> String {
    new_id().replacen("state-", "call_", 1).replace('-', "_")
}
