//! Chat: the state contains the conversation, so each turn prefills only the new message. The text is kept beside it.

mod answer_end;
mod format;
mod template;

use crate::state_file::StateKind;
use crate::{GenerateOptions, Generated, OnGeneration, Session, SessionError};
pub(crate) use answer_end::AnswerEnd;
pub use format::{ChatFormat, ChatFormatError};
use std::collections::VecDeque;
use std::path::Path;
pub use template::{ChatMessage, NEXT_USER, THINKING, after_thoughts, conversation, next_message};
use wgoose_runtime::StateData;

/// How to chat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatOptions {
    /// What the model is told before the first message.
    pub system: Option<String>,
    /// Whether the model thinks before it answers.
    pub think: bool,
    /// How answers are generated. The beginning of the next message ends them too. A grammar is that of the answer after
    /// the thoughts.
    pub generate: GenerateOptions,
}

/// A message and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatTurn {
    /// The message, as it was said.
    pub message: String,
    /// The answer, with its [opening](Chat::opening).
    pub answer: String,
}

/// A conversation with an RWKV-7 G1 model, or one that knows its format.
pub struct Chat {
    session: Session,
    options: ChatOptions,
    place: Place,
    /// Where conversations begin, once that was left; `None`: nothing was read.
    beginning: Option<StateData>,
    /// The last messages, the newest at the end.
    said: VecDeque<Said>,
    /// The conversation from its beginning, its last turns those of `said`.
    turns: Vec<ChatTurn>,
}

/// A message, and what was before it.
struct Said {
    message: String,
    place: Place,
    state: StateData,
    /// How often it was answered anew.
    again: u64,
}

/// Messages that can be taken back: each keeps a state.
const KEPT: usize = 8;

/// What the state has read.
#[derive(Clone)]
enum Place {
    /// Nothing of the conversation.
    Beginning,
    /// The end of an answer.
    Answer(AnswerEnd),
    /// All up to where a message begins.
    User,
}

impl Chat {
    /// A conversation that begins with the session's state, as of an initial state made for chats.
    pub fn new(session: Session, mut options: ChatOptions) -> Self {
        options.generate.stop_strings.push(NEXT_USER.to_owned());
        if options.think {
            options.generate.grammar = options.generate.grammar.and_then(after_thoughts);
        }
        Chat { session, options, place: Place::Beginning, beginning: None, said: VecDeque::new(), turns: Vec::new() }
    }

    /// The opening of an answer that the model is given: it belongs to the answer, but `on_event` is not given it.
    pub fn opening(&self) -> &'static str {
        if self.options.think { "<think" } else { "" }
    }

    /// Says something; the answer goes to `on_event` as it comes, until it ends or `on_event` breaks. Then the
    /// conversation can continue. Only the message is read, and what the answer left unread. If `on_event` breaks
    /// between the passes of a long message, the message counts as not said.
    ///
    /// # Errors
    /// As of [`Session::generate`].
    pub fn say(&mut self, message: &str, on_event: OnGeneration<'_>) -> Result<Generated, SessionError> {
        self.remember()?;
        let said =
            Said { message: message.to_owned(), place: self.place.clone(), state: self.session.state()?, again: 0 };
        self.said.drain(..self.said.len().saturating_sub(KEPT - 1));
        self.said.push_back(said);
        self.turns.push(ChatTurn { message: message.to_owned(), answer: String::new() });
        self.answer(message, 0, on_event)
    }

    /// The conversation from its beginning, with the turns of a file that was loaded.
    pub fn turns(&self) -> &[ChatTurn] {
        &self.turns
    }

    /// The last message, if it can be taken back.
    pub fn last(&self) -> Option<&str> {
        self.said.back().map(|said| said.message.as_str())
    }

    /// Takes back the last message and its answer; returns the message. `None` where none is kept: the last 8 are,
    /// until the conversation is reset, saved or loaded.
    ///
    /// # Errors
    /// The device fails.
    pub fn undo(&mut self) -> Result<Option<String>, SessionError> {
        let Some(said) = self.said.pop_back() else { return Ok(None) };
        self.turns.pop();
        self.session.set_state(&said.state)?;
        self.place = said.place;
        Ok(Some(said.message))
    }

    /// Answers the last message anew, with other random numbers. `None` where none is kept: see [`Chat::undo`].
    ///
    /// # Errors
    /// As of [`Session::generate`].
    pub fn again(&mut self, on_event: OnGeneration<'_>) -> Result<Option<Generated>, SessionError> {
        let Some(said) = self.said.back_mut() else { return Ok(None) };
        said.again += 1;
        let (message, again) = (said.message.clone(), said.again);
        self.place = said.place.clone();
        self.session.set_state(&said.state)?;
        self.answer(&message, again, on_event).map(Some)
    }

    /// Begins anew, and tells the model this first from now on.
    ///
    /// # Errors
    /// The device fails.
    pub fn set_system(&mut self, system: Option<String>) -> Result<(), SessionError> {
        self.reset()?;
        self.options.system = system;
        Ok(())
    }

    /// Answers a message that is to be read now.
    fn answer(&mut self, message: &str, again: u64, on_event: OnGeneration<'_>) -> Result<Generated, SessionError> {
        let mut options = self.options.generate.clone();
        options.sampling.seed = options.sampling.seed.wrapping_add(again);
        let mut prompt = self.lead();
        prompt.extend(template::next_message(message, self.options.think).into_bytes());
        let tokens = self.session.tokenizer()?.encode(&prompt);
        let generated = self.session.generate_after(&tokens, &options, on_event)?;
        if generated.prompt_tokens < tokens.len() {
            // Half of a message leaves no place to continue from.
            self.undo()?;
            return Ok(generated);
        }
        let end = AnswerEnd::new(self.session.tokenizer()?, &generated, &self.options.generate.stop_strings);
        let answer = format!("{}{}", self.opening(), String::from_utf8_lossy(&end.answer()));
        if let Some(turn) = self.turns.last_mut() {
            turn.answer = answer.trim_start().to_owned();
        }
        self.place = Place::Answer(end);
        Ok(generated)
    }

    /// Takes note of where conversations begin, before it is left.
    fn remember(&mut self) -> Result<(), SessionError> {
        if matches!(self.place, Place::Beginning) {
            self.beginning = Some(self.session.state()?).filter(|state| !state.is_zero());
        }
        Ok(())
    }

    /// Forgets all that was said: a conversation begins as the first one did, or with the initial state that was loaded
    /// since.
    ///
    /// # Errors
    /// The device fails.
    pub fn reset(&mut self) -> Result<(), SessionError> {
        self.remember()?;
        match &self.beginning {
            Some(state) => self.session.set_state(state)?,
            None => self.session.reset()?,
        }
        self.place = Place::Beginning;
        self.said.clear();
        self.turns.clear();
        Ok(())
    }

    /// Writes the conversation to a file: its text, and the state where the next message begins. See
    /// [`Session::save_state`].
    ///
    /// # Errors
    /// The device fails, or the folder cannot be written.
    pub fn save(&mut self, path: impl AsRef<Path>) -> Result<(), SessionError> {
        self.remember()?;
        let lead = self.session.tokenizer()?.encode(&self.lead());
        if !lead.is_empty() {
            self.session.prefill(&lead)?;
        }
        self.place = Place::User;
        self.said.clear();
        self.session.save_chat(path.as_ref(), &self.turns)
    }

    /// Continues the conversation of a file that [`Chat::save`] wrote, or begins one with a tuned initial state. See
    /// [`Session::load_state`]. [`Chat::turns`] are those of the file; a state that no chat wrote has none.
    ///
    /// # Errors
    /// The file is neither, it is of another model, or the device fails; the conversation then is what it was.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), SessionError> {
        self.remember()?;
        let (kind, turns) = self.session.load(path.as_ref())?;
        self.place = match kind {
            StateKind::Initial => Place::Beginning,
            StateKind::Saved => Place::User,
        };
        self.said.clear();
        self.turns = turns;
        Ok(())
    }

    /// The session, with the state as the last answer left it.
    pub fn into_session(self) -> Session {
        self.session
    }

    /// What is to be read before a message.
    fn lead(&self) -> Vec<u8> {
        match &self.place {
            Place::Beginning => template::first_user(self.options.system.as_deref()).into_bytes(),
            Place::Answer(end) => end.to_next_message(NEXT_USER),
            Place::User => Vec::new(),
        }
    }
}
