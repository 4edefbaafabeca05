//! Answers in the format of OpenAI's interface, whole or as server-sent events.

use super::Served;
use super::generation::Generation;
use super::refused::Refused;
use super::start::{Start, Store};
use super::thoughts::{Split, Thoughts};
use crate::engine::{TextEvent, Texts};
use crate::states::ChatState;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use wgoose_session::{BatchRequest, ChatTurn, Ending, Generated, StateData, StateEnd};

/// Interval of keep-alive comments in a stream without text: proxies close silent connections.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Events of a stream that are buffered for a slow client.
const BUFFERED_EVENTS: usize = 16;

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
    /// Tokens of its prompt from the prefix cache.
    cached: usize,
    /// Splits the thoughts from the answer of a chat.
    thoughts: Option<Thoughts>,
    /// The prompt, if the answer includes it (`echo`).
    opening: String,
    /// The text so far.
    split: Split,
    /// The state at its end, if it is stored.
    state: Option<Arc<StateData>>,
    generated: Option<Generated>,
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
        let end = if kind == Kind::Chat { StateEnd::NextMessage } else { StateEnd::Text };
        let returned = store.is_some().then_some(end);
        let keep = kind == Kind::Chat;
        let (mut requests, mut choices) = (Vec::new(), Vec::new());
        let prompt_tokens = prompts.iter().map(Vec::len).sum();
        for (prompt, opening) in prompts.into_iter().zip(openings) {
            for _ in 0..generation.count {
                let options = generation.of_text(requests.len());
                let prompt = prompt.clone();
                let (state, priority) = (state.clone(), generation.priority);
                requests.push(BatchRequest { state, prompt, options, priority, keep, returned });
                let (text, opening) = (String::new(), opening.clone());
                let thoughts = chat.as_ref().map(|chat| Thoughts::after(chat.opening));
                let split = Split { thoughts: String::new(), answer: text };
                choices.push(Choice { cached: 0, thoughts, opening, split, state: None, generated: None });
            }
        }
        let texts = served.engine.generate(requests).await?;
        let heading = Heading::new(kind, &served.options.model);
        let stored = store.map(|store| StoredChat { store, turns, message: chat.map(|chat| chat.message) });
        let answering = Answering { heading, choices, texts, prompt_tokens, stored };
        match generation.is_stream {
            true => Ok(answering.stream(generation.has_usage)),
            false => answering.whole().await,
        }
    }
}

/// What only a chat has.
pub(super) struct ChatRequest {
    /// The last message.
    pub(super) message: String,
    /// The end of the prompt, where thoughts may begin.
    pub(super) opening: &'static str,
}

/// An answer in progress.
struct Answering {
    heading: Heading,
    choices: Vec<Choice>,
    texts: Texts,
    /// Tokens of the prompts, counted once for all texts of a prompt.
    prompt_tokens: usize,
    stored: Option<StoredChat>,
}

/// What to send after an event.
enum Told {
    Nothing,
    Text(usize, Split),
    /// The rest of the text, and why it ends.
    Ended(usize, Option<Split>, &'static str),
    Failed(String),
}

impl Choice {
    /// Records a piece of the text.
    fn take(&mut self, split: Option<Split>) -> Option<Split> {
        let split = split?;
        self.split.thoughts += &split.thoughts;
        self.split.answer += &split.answer;
        Some(split)
    }
}

impl Answering {
    /// Records an event.
    fn take(&mut self, index: usize, event: TextEvent) -> Told {
        let choice = &mut self.choices[index];
        match event {
            TextEvent::Admitted(known) => {
                choice.cached = known;
                Told::Nothing
            }
            TextEvent::Text(text) => {
                let split = match &mut choice.thoughts {
                    Some(thoughts) => thoughts.push(&text),
                    None => Some(Split { thoughts: String::new(), answer: text }),
                };
                choice.take(split).map_or(Told::Nothing, |split| Told::Text(index, split))
            }
            TextEvent::State(state) => {
                choice.state = Some(state);
                Told::Nothing
            }
            TextEvent::Ended(generated) => {
                let reason = reason(&generated);
                choice.generated = Some(generated);
                let rest = choice.thoughts.as_mut().and_then(Thoughts::finish);
                Told::Ended(index, choice.take(rest), reason)
            }
            TextEvent::Failed(why) => Told::Failed(why),
        }
    }

    /// Stores the state of a text that has ended; its id, if the request asked for one.
    async fn store(&mut self, index: usize) -> Result<Option<String>, Refused> {
        let choice = &mut self.choices[index];
        let (Some(stored), Some(state)) = (self.stored.take(), choice.state.take()) else { return Ok(None) };
        let StoredChat { store, mut turns, message } = stored;
        turns.extend(message.map(|message| ChatTurn { message, answer: choice.split.answer.clone() }));
        store.store(ChatState { state: Arc::unwrap_or_clone(state), turns }).await
    }

    async fn whole(mut self) -> Result<Response, Refused> {
        while let Some((index, event)) = self.texts.recv().await {
            if let Told::Failed(why) = self.take(index, event) {
                return Err(Refused::with(StatusCode::INTERNAL_SERVER_ERROR, why));
            }
        }
        let state_id = self.store(0).await?;
        let mut choices = Vec::new();
        for (index, choice) in self.choices.iter().enumerate() {
            let Some(generated) = &choice.generated else { return Err(crate::engine::EngineError::Ended.into()) };
            let Split { thoughts, answer } = &choice.split;
            let said = match self.heading.kind {
                Kind::Text => json!({ "text": format!("{}{answer}", choice.opening) }),
                Kind::Chat => {
                    let mut message = json!({ "role": "assistant", "content": answer, "refusal": null });
                    if !thoughts.is_empty() {
                        message["reasoning_content"] = thoughts.as_str().into();
                    }
                    json!({ "message": message })
                }
            };
            choices.push(choice_of(said, index, Some(reason(generated))));
        }
        let object = if self.heading.kind == Kind::Chat { "chat.completion" } else { "text_completion" };
        let mut answer = self.heading.with(object, &choices);
        answer["usage"] = self.usage();
        if let Some(id) = state_id {
            answer["state_id"] = id.into();
        }
        Ok(super::json(StatusCode::OK, &answer))
    }

    /// Numbers of tokens.
    fn usage(&self) -> Value {
        let written: usize = self.choices.iter().filter_map(|c| Some(c.generated.as_ref()?.tokens.len())).sum();
        let cached: usize = self.choices.iter().map(|choice| choice.cached).max().unwrap_or(0);
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": written,
            "total_tokens": self.prompt_tokens + written,
            "prompt_tokens_details": { "cached_tokens": cached },
        })
    }

    /// Sends text as it is generated. If the client disconnects, the sequences leave the batch.
    fn stream(self, has_usage: bool) -> Response {
        let (send, pieces) = mpsc::channel(BUFFERED_EVENTS);
        tokio::spawn(async move {
            // An error: the client has disconnected.
            let _ = self.send(has_usage, &send).await;
        });
        let body = Body::from_stream(ReceiverStream::new(pieces));
        let mut response = body.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // Without it nginx buffers the events.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }

    async fn send(mut self, has_usage: bool, to: &Pieces) -> Result<(), Disconnected> {
        for index in 0..self.choices.len() {
            if self.heading.kind == Kind::Chat {
                event(to, &self.heading.piece(index, &json!({ "role": "assistant", "content": "" }), None)).await?;
            }
            let opening = std::mem::take(&mut self.choices[index].opening);
            if !opening.is_empty() {
                let split = Split { thoughts: String::new(), answer: opening };
                event(to, &self.heading.text(index, &split)).await?;
            }
        }
        loop {
            let next = tokio::select! {
                next = timeout(KEEP_ALIVE, self.texts.recv()) => next,
                () = to.closed() => return Err(Disconnected),
            };
            let Ok(next) = next else {
                to.send(Ok(": keep-alive\n\n".to_owned())).await.map_err(|_| Disconnected)?;
                continue;
            };
            let Some((index, happened)) = next else { break };
            match self.take(index, happened) {
                Told::Nothing => {}
                Told::Text(index, split) => event(to, &self.heading.text(index, &split)).await?,
                Told::Ended(index, rest, reason) => {
                    if let Some(rest) = rest {
                        event(to, &self.heading.text(index, &rest)).await?;
                    }
                    let mut last = self.heading.piece(index, &json!({}), Some(reason));
                    match self.store(index).await {
                        Ok(None) => {}
                        Ok(Some(id)) => last["state_id"] = id.into(),
                        Err(refused) => return event(to, &refused.json()).await,
                    }
                    event(to, &last).await?;
                }
                Told::Failed(why) => {
                    let refused = Refused::with(StatusCode::INTERNAL_SERVER_ERROR, why);
                    return event(to, &refused.json()).await;
                }
            }
        }
        if self.choices.iter().any(|choice| choice.generated.is_none()) {
            return event(to, &Refused::from(crate::engine::EngineError::Ended).json()).await;
        }
        if has_usage {
            let mut last = self.heading.piece(0, &json!({}), None);
            last["choices"] = json!([]);
            last["usage"] = self.usage();
            event(to, &last).await?;
        }
        to.send(Ok("data: [DONE]\n\n".to_owned())).await.map_err(|_| Disconnected)
    }
}

/// The body of a stream.
type Pieces = mpsc::Sender<Result<String, Infallible>>;

/// The client disconnected.
struct Disconnected;

async fn event(to: &Pieces, value: &Value) -> Result<(), Disconnected> {
    to.send(Ok(format!("data: {value}\n\n"))).await.map_err(|_| Disconnected)
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
        let Split { thoughts, answer } = split;
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

fn choice_of(mut said: Value, index: usize, reason: Option<&str>) -> Value {
    said["index"] = index.into();
    said["logprobs"] = Value::Null;
    said["finish_reason"] = reason.into();
    said
}

fn reason(generated: &Generated) -> &'static str {
    match generated.ending {
        Ending::MaxTokens => "length",
        Ending::StopToken(_) | Ending::StopString(_) | Ending::Caller => "stop",
    }
}
