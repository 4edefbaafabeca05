//! Answers in the format of OpenAI's interface, whole or as server-sent events.

use super::Served;
use super::generation::Generation;
use super::logprobs;
use super::progress::{TextProgress, Told};
use super::refused::Refused;
use super::start::{Start, Store};
use super::stream::{Disconnected, EventSender, stream};
use super::thoughts::{NumberedCall, Split};
use crate::engine::{EngineError, Texts};
use crate::states::ChatState;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use wgoose_session::tokenizer::Tokenizer;
use wgoose_session::tools::CallReader;
use wgoose_session::{BatchRequest, ChatTurn, StateEnd};

/// The kind of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Chat,
}

/// The fields that all parts of an answer have.
struct Heading {
    kind: Kind,
    id: String,
    created: u64,
    model: String,
}

/// One text of an answer.
struct Choice {
    /// The prompt, if the answer includes it (`echo`).
    opening: String,
    progress: TextProgress,
    /// Number of tokens whose log-probabilities were sent, and characters of these tokens.
    listed: (usize, usize),
}

/// Where the state at the end goes, with the text of its chat.
struct StoredChat {
    store: Store,
    turns: Vec<ChatTurn>,
    message: Option<String>,
}

/// A request for texts.
pub(super) struct TextRequest {
    pub(super) kind: Kind,
    pub(super) prompts: Vec<Vec<u32>>,
    pub(super) generation: Generation,
    /// What the answers to each prompt begin with.
    pub(super) openings: Vec<String>,
    /// The chat, if it is one.
    pub(super) chat: Option<ChatRequest>,
    /// Where the texts start, and where the state goes.
    pub(super) start: Start,
}

impl TextRequest {
    /// Generates the texts.
    ///
    /// # Errors
    /// The request makes no sense, or the queue is full. Nothing was sent then.
    pub(super) async fn answer(self, served: &Served) -> Result<Response, Refused> {
        let TextRequest { kind, prompts, generation, openings, chat, start } = self;
        let Start { state, turns, store } = start;
        let next = || StateEnd::NextMessage(served.format.next().into());
        let returned = store.is_some().then(|| if chat.is_some() { next() } else { StateEnd::Text });
        let keep = chat.is_some();
        if returned.is_some() && generation.options.max_tokens == 0 {
            return Err(Refused::field("max_tokens", "a state is stored after an answer: give at least 1"));
        }
        let (texts, most) = (prompts.len() * generation.count, served.options.parallel + served.options.queue);
        if texts > most {
            return Err(Refused::field("n", format_args!("{texts} texts are more than the {most} that can be queued")));
        }
        let (mut requests, mut choices) = (Vec::new(), Vec::new());
        let prompt_tokens = prompts.iter().map(Vec::len).sum();
        for (prompt, opening) in prompts.into_iter().zip(openings) {
            for _ in 0..generation.count {
                let options = generation.of_text(requests.len());
                let prompt = prompt.clone();
                let (state, priority) = (state.clone(), generation.priority);
                let returned = returned.clone();
                requests.push(BatchRequest { state, prompt, options, priority, keep, returned });
                let progress = match &chat {
                    Some(chat) => TextProgress::of_chat(&chat.opening, chat.calls.clone()),
                    None => TextProgress::of_prompt(),
                };
                choices.push(Choice { opening: opening.clone(), progress, listed: (0, 0) });
            }
        }
        let texts = served.engine.generate(requests).await?;
        let heading = Heading::new(kind, &served.options.model);
        let stored = store.map(|store| StoredChat { store, turns, message: chat.map(|chat| chat.message) });
        let tokenizer = generation.options.logprobs.map(|_| served.tokenizer.clone());
        let answering = Answering { heading, choices, texts, prompt_tokens, tokenizer, stored };
        match generation.is_stream {
            true => Ok(stream(|to| answering.send(generation.has_usage, to))),
            false => answering.whole().await,
        }
    }
}

/// What only a chat has.
pub(super) struct ChatRequest {
    /// The last message.
    pub(super) message: String,
    /// The end of the prompt, where thoughts may begin.
    pub(super) opening: String,
    /// Reads the calls of tools, if there are tools.
    pub(super) calls: Option<CallReader>,
}

/// An answer in progress.
struct Answering {
    heading: Heading,
    choices: Vec<Choice>,
    texts: Texts,
    /// Tokens of the prompts, counted once for all texts of a prompt.
    prompt_tokens: usize,
    /// If the request asks for log-probabilities.
    tokenizer: Option<Tokenizer>,
    stored: Option<StoredChat>,
}

impl Answering {
    /// Log-probabilities of the tokens since the last call, null if the request asks for none.
    fn logprobs(&mut self, index: usize) -> Value {
        let Some(tokenizer) = &self.tokenizer else { return Value::Null };
        let Choice { progress, listed: (sent, characters), .. } = &mut self.choices[index];
        let tokens = &progress.logprobs[*sent..];
        *sent = progress.logprobs.len();
        logprobs::listed(self.heading.kind, tokens, tokenizer, characters)
    }

    /// Stores the state of a text that has ended; its id, if the request asked for one.
    async fn store(&mut self, index: usize) -> Result<Option<String>, Refused> {
        let choice = &mut self.choices[index];
        let (Some(stored), Some(state)) = (self.stored.take(), choice.progress.state.take()) else { return Ok(None) };
        let StoredChat { store, mut turns, message } = stored;
        turns.extend(message.map(|message| ChatTurn { message, answer: choice.progress.written() }));
        store.store(ChatState { state: Arc::unwrap_or_clone(state), turns }).await
    }

    async fn whole(mut self) -> Result<Response, Refused> {
        while let Some((index, event)) = self.texts.recv().await {
            if let Told::Failed(why) = self.choices[index].progress.take(event) {
                return Err(Refused::with(StatusCode::INTERNAL_SERVER_ERROR, why));
            }
        }
        let state_id = self.store(0).await?;
        let logprobs: Vec<Value> = (0..self.choices.len()).map(|index| self.logprobs(index)).collect();
        let mut choices = Vec::new();
        for (index, (choice, logprobs)) in self.choices.iter().zip(logprobs).enumerate() {
            let Some(reason) = choice.progress.reason() else { return Err(EngineError::Ended.into()) };
            let Split { thoughts, answer, calls } = &choice.progress.split;
            let said = match self.heading.kind {
                Kind::Text => json!({ "text": format!("{}{answer}", choice.opening) }),
                Kind::Chat => {
                    let mut message = json!({ "role": "assistant", "content": answer, "refusal": null });
                    if !calls.is_empty() {
                        message["tool_calls"] = calls.iter().map(tool_call).collect();
                        if answer.is_empty() {
                            message["content"] = Value::Null;
                        }
                    }
                    if !thoughts.is_empty() {
                        message["reasoning_content"] = thoughts.as_str().into();
                    }
                    json!({ "message": message })
                }
            };
            let mut choice = choice_of(said, index, Some(reason));
            choice["logprobs"] = logprobs;
            choices.push(choice);
        }
        let object = if self.heading.kind == Kind::Chat { "chat.completion" } else { "text_completion" };
        let mut answer = self.heading.with(object, &choices);
        answer["usage"] = self.usage();
        if let Some(id) = state_id {
            answer["state_id"] = id.into();
        }
        Ok(super::json(StatusCode::OK, &answer))
    }

    /// An event with text, and calls that follow those that were sent.
    fn piece(&mut self, index: usize, split: &Split) -> Value {
        let mut piece = self.heading.text(index, split);
        piece["choices"][0]["logprobs"] = self.logprobs(index);
        if !split.calls.is_empty() {
            let sent = self.choices[index].progress.split.calls.len() - split.calls.len();
            let numbered = split.calls.iter().zip(sent..).map(|(call, number)| {
                let mut call = tool_call(call);
                call["index"] = number.into();
                call
            });
            piece["choices"][0]["delta"]["tool_calls"] = numbered.collect();
        }
        piece
    }

    /// Numbers of tokens.
    fn usage(&self) -> Value {
        let written: usize = self.choices.iter().map(|choice| choice.progress.tokens()).sum();
        let cached: usize = self.choices.iter().map(|choice| choice.progress.cached).max().unwrap_or(0);
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": written,
            "total_tokens": self.prompt_tokens + written,
            "prompt_tokens_details": { "cached_tokens": cached },
        })
    }

    /// Sends text as it is generated. If the client disconnects, the sequences leave the batch.
    async fn send(mut self, has_usage: bool, to: EventSender) -> Result<(), Disconnected> {
        for index in 0..self.choices.len() {
            if self.heading.kind == Kind::Chat {
                to.send(&self.heading.piece(index, &json!({ "role": "assistant", "content": "" }), None)).await?;
            }
            let opening = std::mem::take(&mut self.choices[index].opening);
            if !opening.is_empty() {
                let split = Split { answer: opening, ..Split::default() };
                to.send(&self.heading.text(index, &split)).await?;
            }
        }
        while let Some((index, happened)) = to.next(&mut self.texts).await? {
            match self.choices[index].progress.take(happened) {
                Told::Nothing => {}
                Told::Text(split) => {
                    let piece = self.piece(index, &split);
                    to.send(&piece).await?;
                }
                Told::Ended(rest) => {
                    if let Some(rest) = rest {
                        let piece = self.piece(index, &rest);
                        to.send(&piece).await?;
                    }
                    let mut last = self.heading.piece(index, &json!({}), self.choices[index].progress.reason());
                    if self.choices[index].listed.0 < self.choices[index].progress.logprobs.len() {
                        last["choices"][0]["logprobs"] = self.logprobs(index);
                    }
                    match self.store(index).await {
                        Ok(None) => {}
                        Ok(Some(id)) => last["state_id"] = id.into(),
                        Err(refused) => return to.send(&refused.json()).await,
                    }
                    to.send(&last).await?;
                }
                Told::Failed(why) => {
                    let refused = Refused::with(StatusCode::INTERNAL_SERVER_ERROR, why);
                    return to.send(&refused.json()).await;
                }
            }
        }
        if self.choices.iter().any(|choice| choice.progress.generated.is_none()) {
            return to.send(&Refused::from(EngineError::Ended).json()).await;
        }
        if has_usage {
            let mut last = self.heading.piece(0, &json!({}), None);
            last["choices"] = json!([]);
            last["usage"] = self.usage();
            to.send(&last).await?;
        }
        to.send_done().await
    }
}

impl Heading {
    fn new(kind: Kind, model: &str) -> Self {
        static ANSWERS: AtomicU64 = AtomicU64::new(0);
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let prefix = if kind == Kind::Chat { "chatcmpl" } else { "cmpl" };
        let id = format!("{prefix}-{created}-{}", ANSWERS.fetch_add(1, Ordering::Relaxed));
        Heading { kind, id, created, model: model.to_owned() }
    }

    fn with(&self, object: &str, choices: &[Value]) -> Value {
        json!({ "id": self.id, "object": object, "created": self.created, "model": self.model, "choices": choices })
    }

    /// An event with text.
    fn text(&self, index: usize, split: &Split) -> Value {
        let Split { thoughts, answer, .. } = split;
        if self.kind == Kind::Text {
            return self.with("text_completion", &[choice_of(json!({ "text": answer }), index, None)]);
        }
        let mut delta = json!({});
        if !thoughts.is_empty() {
            delta["reasoning_content"] = thoughts.as_str().into();
        }
        if !answer.is_empty() {
            delta["content"] = answer.as_str().into();
        }
        self.piece(index, &delta, None)
    }

    /// An event of a choice.
    fn piece(&self, index: usize, delta: &Value, reason: Option<&str>) -> Value {
        match self.kind {
            Kind::Text => self.with("text_completion", &[choice_of(json!({ "text": "" }), index, reason)]),
            Kind::Chat => self.with("chat.completion.chunk", &[choice_of(json!({ "delta": delta }), index, reason)]),
        }
    }
}

fn tool_call(numbered: &NumberedCall) -> Value {
    let NumberedCall { id, call } = numbered;
    json!({ "id": id, "type": "function", "function": { "name": call.name, "arguments": call.arguments } })
}

fn choice_of(mut said: Value, index: usize, reason: Option<&str>) -> Value {
    said["index"] = index.into();
    said["logprobs"] = Value::Null;
    said["finish_reason"] = reason.into();
    said
}
