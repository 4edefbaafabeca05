//! One text in progress: what its events have told so far.

use super::thoughts::{Split, Thoughts};
use crate::engine::TextEvent;
use std::sync::Arc;
use wgoose_session::{Ending, Generated, StateData};

/// One text of an answer.
pub(super) struct TextProgress {
    /// Tokens of its prompt from the prefix cache.
    pub(super) cached: usize,
    /// Splits the thoughts from the answer of a chat.
    thoughts: Option<Thoughts>,
    /// The text so far.
    pub(super) split: Split,
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
        TextProgress { cached: 0, thoughts: None, split: Split::default(), state: None, generated: None }
    }

    /// The answer of a chat, whose prompt ends with that text.
    pub(super) fn of_chat(opening: &str) -> Self {
        TextProgress { thoughts: Some(Thoughts::after(opening)), ..TextProgress::of_prompt() }
    }

    /// Records an event.
    pub(super) fn take(&mut self, event: TextEvent) -> Told {
        match event {
            TextEvent::Admitted(cached) => {
                self.cached = cached;
                Told::Nothing
            }
            TextEvent::Text(text) => {
                let split = match &mut self.thoughts {
                    Some(thoughts) => thoughts.push(&text),
                    None => Some(Split { thoughts: String::new(), answer: text }),
                };
                self.add(split).map_or(Told::Nothing, Told::Text)
            }
            TextEvent::State(state) => {
                self.state = Some(state);
                Told::Nothing
            }
            TextEvent::Ended(generated) => {
                self.generated = Some(generated);
                let rest = self.thoughts.as_mut().and_then(Thoughts::finish);
                Told::Ended(self.add(rest))
            }
            TextEvent::Failed(why) => Told::Failed(why),
        }
    }

    fn add(&mut self, split: Option<Split>) -> Option<Split> {
        let split = split?;
        self.split.thoughts += &split.thoughts;
        self.split.answer += &split.answer;
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
        Some(if self.is_cut() { "length" } else { "stop" })
    }
}
