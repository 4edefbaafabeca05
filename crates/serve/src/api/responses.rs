//! `/v1/responses`: OpenAI's interface with conversations on the server. `previous_response_id` is a stored state, so
//! the next turn costs as much as its new message, however long the conversation is.

use super::Served;
use super::fields::Fields;
use super::generation::sampling;
use super::messages::{Message, begins_thinking, is_thinking, prompt};
use super::progress::{TextProgress, Told};
use super::refused::Refused;
use super::response_input::{FIELD, Input};
use super::start::{Start, blocking, states};
use super::stream::{Disconnected, EventSender, stream};
use super::structure::{Beginning, Structure};
use super::thoughts::{NumberedCall, Split};
use super::tools::{EchoedTools, Tools};
use crate::engine::{EngineError, Texts};
use crate::states::{ChatState, StateOwner, new_id};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use wgoose_session::{BatchRequest, ChatTurn, GenerateOptions, StateEnd};

/// Default of `max_output_tokens`.
const DEFAULT_TOKENS: usize = 2048;

/// Fields that are not supported, with their neutral values.
const UNSUPPORTED: [(&str, &[&str]); 6] = [
    ("background", &["false"]),
    ("include", &["[]"]),
    ("conversation", &[]),
    ("max_tool_calls", &[]),
    ("prompt", &[]),
    ("truncation", &["\"disabled\"", "\"auto\""]),
];

#[derive(Deserialize)]
struct Reasoning {
    effort: Option<String>,
}

/// A response in progress.
struct Responding {
    id: String,
    created: u64,
    model: String,
    previous: Option<String>,
    instructions: Option<String>,
    max_tokens: usize,
    /// `text.format`.
    format: Value,
    tools: EchoedTools,
    prompt_tokens: usize,
    progress: TextProgress,
    texts: Texts,
    /// Where the state goes, with the turns before this one and its message.
    start: Start,
    message: String,
}

pub(super) async fn respond(served: &Served, body: &[u8]) -> Result<Response, Refused> {
    let mut fields = Fields::of(body)?;
    let _: Option<String> = fields.take("model")?;
    fields.neutral(&UNSUPPORTED)?;
    let input: Input = fields.need(FIELD)?;
    let instructions: Option<String> = fields.take("instructions")?;
    let previous: Option<String> = fields.take("previous_response_id")?;
    let max_tokens = fields.take("max_output_tokens")?.unwrap_or(DEFAULT_TOKENS.min(served.options.max_tokens));
    let reasoning: Option<Reasoning> = fields.take("reasoning")?;
    let think = is_thinking("reasoning", reasoning.and_then(|reasoning| reasoning.effort).as_deref())?.unwrap_or(false);
    let is_stored = fields.take("store")?.unwrap_or(true);
    let is_stream = fields.take("stream")?.unwrap_or(false);
    let sampling = sampling(&mut fields)?;
    let (structure, format) = Structure::take_text(&mut fields)?;
    let (tools, echoed) = Tools::take(&mut fields)?;
    fields.finish()?;
    if max_tokens > served.options.max_tokens {
        let most = served.options.max_tokens;
        let why = format_args!("{max_tokens} are more than the {most} allowed");
        return Err(Refused::field("max_output_tokens", why));
    }
    if previous.is_some() {
        states(served).map_err(|refused| Refused { field: Some("previous_response_id".to_owned()), ..refused })?;
    }
    let id = new_id().replace("state-", "resp_");
    let stored_id = is_stored.then(|| id.clone());
    let mut start = Start::of_response(served.states.clone(), previous.clone(), stored_id)
        .await
        .map_err(|refused| Refused { field: Some("previous_response_id".to_owned()), ..refused })?;
    let mut messages = input.messages()?;
    if let Some(text) = &instructions {
        messages.insert(0, Message { role: "system".to_owned(), text: text.clone() });
    }
    let told = tools.as_ref().filter(|_| served.format.tells_tools()).map(Tools::as_sent);
    if let Some(tools) = tools.as_ref().filter(|_| start.state.is_none() && told.is_none()) {
        tools.tell(&mut messages);
    }
    let text = prompt(&served.format, FIELD, &messages, told.as_ref(), (start.state.is_some(), think))?;
    let opening = served.format.opening(think).map_err(|why| Refused::field(FIELD, why))?;
    let think = begins_thinking(&opening);
    let tokens = served.tokenizer.encode(text.as_bytes());
    if tokens.len() > served.options.max_prompt {
        let (got, most) = (tokens.len(), served.options.max_prompt);
        return Err(Refused::field(FIELD, format_args!("{got} tokens are more than the {most} allowed")));
    }
    let stop_strings = vec![served.format.stop().to_owned()];
    let mut options = GenerateOptions { sampling, max_tokens, stop_strings, ..GenerateOptions::default() };
    options.grammar = match (&tools, structure) {
        (Some(tools), structure) => Some(tools.compile(served, structure.as_ref(), think).await?),
        (None, Some(structure)) => Some(structure.compile(served, Beginning::Answer(think)).await?),
        (None, None) => None,
    };
    let returned = start.store.is_some().then(|| StateEnd::NextMessage(served.format.next().into()));
    let (prompt_tokens, state) = (tokens.len(), start.state.take());
    let request = BatchRequest { state, prompt: tokens, options, priority: 0, keep: true, returned };
    let responding = Responding {
        id,
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        model: served.options.model.clone(),
        previous,
        instructions,
        max_tokens,
        format,
        tools: echoed,
        prompt_tokens,
        progress: TextProgress::of_chat(&opening, tools.as_ref().map(Tools::reader)),
        texts: served.engine.generate(vec![request]).await?,
        start,
        message: messages.into_iter().next_back().map(|message| message.text).unwrap_or_default(),
    };
    match is_stream {
        true => Ok(stream(|to| responding.send(to))),
        false => responding.whole().await,
    }
}

/// The message of a stored response.
pub(super) async fn retrieve(served: &Served, id: String) -> Result<Response, Refused> {
    let (states, name) = (states(served)?, id.clone());
    let chat = blocking(move || states.load(StateOwner::Server, &id)).await?;
    let Some(turn) = chat.turns.last() else {
        return Err(Refused::with(StatusCode::NOT_FOUND, format!("'{name}' is no response")));
    };
    let output = [message(&name, &turn.answer, "completed")];
    let model = &served.options.model;
    Ok(super::json(
        StatusCode::OK,
        &json!({
            "id": name, "object": "response", "status": "completed", "model": model, "output": output, "error": null,
        }),
    ))
}

/// An item of the output.
fn message(id: &str, text: &str, status: &str) -> Value {
    json!({
        "type": "message", "id": item_id("msg", id), "status": status, "role": "assistant", "content": [part(text)],
    })
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

fn item_id(prefix: &str, id: &str) -> String {
    id.replacen("resp", prefix, 1)
}

impl Responding {
    /// The response as it is now.
    fn response(&self) -> Value {
        let is_over = self.progress.generated.is_some();
        let is_cut = self.progress.is_cut();
        let status = match (is_over, is_cut) {
            (false, _) => "in_progress",
            (true, true) => "incomplete",
            (true, false) => "completed",
        };
        let written = self.progress.tokens();
        let usage = json!({
            "input_tokens": self.prompt_tokens,
            "input_tokens_details": { "cached_tokens": self.progress.cached },
            "output_tokens": written,
            "total_tokens": self.prompt_tokens + written,
        });
        json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": null,
            "incomplete_details": if is_cut { json!({ "reason": "max_output_tokens" }) } else { Value::Null },
            "instructions": self.instructions,
            "max_output_tokens": self.max_tokens,
            "model": self.model,
            "output": if is_over { self.output() } else { json!([]) },
            "parallel_tool_calls": self.tools.is_parallel,
            "previous_response_id": self.previous,
            "store": self.start.store.is_some(),
            "text": { "format": self.format },
            "tool_choice": self.tools.choice,
            "tools": self.tools.tools,
            "truncation": "disabled",
            "usage": if is_over { usage } else { Value::Null },
            "metadata": {},
        })
    }

    fn output(&self) -> Value {
        let Split { thoughts, answer, calls } = &self.progress.split;
        let status = if self.progress.is_cut() { "incomplete" } else { "completed" };
        let mut output = Vec::new();
        if !thoughts.is_empty() {
            let content = json!([{ "type": "reasoning_text", "text": thoughts }]);
            let id = item_id("rs", &self.id);
            output.push(json!({ "type": "reasoning", "id": id, "summary": [], "content": content }));
        }
        if self.has_message() {
            output.push(message(&self.id, answer, status));
        }
        output.extend(calls.iter().enumerate().map(|(index, call)| self.call(index, call, "completed")));
        Value::Array(output)
    }

    /// Whether the output has a message: an answer may be calls only.
    fn has_message(&self) -> bool {
        !self.progress.split.answer.is_empty() || self.progress.split.calls.is_empty()
    }

    /// The item of a call.
    fn call(&self, index: usize, numbered: &NumberedCall, status: &str) -> Value {
        let NumberedCall { id, call } = numbered;
        let item = format!("{}_{index}", item_id("fc", &self.id));
        json!({
            "type": "function_call", "id": item, "call_id": id, "name": call.name, "arguments": call.arguments,
            "status": status,
        })
    }

    /// Stores the state at the end, before the client learns of the end.
    async fn store(&mut self) -> Result<(), Refused> {
        let Some(state) = self.progress.state.take() else { return Ok(()) };
        let Some(store) = self.start.store.take() else { return Ok(()) };
        let mut turns = std::mem::take(&mut self.start.turns);
        let (message, answer) = (self.message.clone(), self.progress.written());
        turns.push(ChatTurn { message, answer });
        store.store(ChatState { state: Arc::unwrap_or_clone(state), turns }).await.map(drop)
    }

    async fn whole(mut self) -> Result<Response, Refused> {
        let is_stored = self.start.store.is_some();
        while let Some((_, event)) = self.texts.recv().await {
            if let Told::Failed(why) = self.progress.take(event) {
                return Err(Refused::with(StatusCode::INTERNAL_SERVER_ERROR, why));
            }
        }
        if self.progress.generated.is_none() {
            return Err(EngineError::Ended.into());
        }
        self.store().await?;
        let mut response = self.response();
        response["store"] = is_stored.into();
        Ok(super::json(StatusCode::OK, &response))
    }

    /// Sends the events of a response.
    async fn send(mut self, to: EventSender) -> Result<(), Disconnected> {
        let mut events = Numbered { to, next: 0 };
        let is_stored = self.start.store.is_some();
        events.send("response.created", json!({ "response": self.response() })).await?;
        events.send("response.in_progress", json!({ "response": self.response() })).await?;
        let mut open = None;
        loop {
            let Some((_, event)) = events.to.next(&mut self.texts).await? else {
                return events.failed(&Refused::from(EngineError::Ended)).await;
            };
            let (split, is_over) = match self.progress.take(event) {
                Told::Nothing => continue,
                Told::Text(split) => (split, false),
                Told::Ended(rest) => (rest.unwrap_or_default(), true),
                Told::Failed(why) => {
                    return events.failed(&Refused::with(StatusCode::INTERNAL_SERVER_ERROR, why)).await;
                }
            };
            if !split.thoughts.is_empty() {
                open = self.open(&mut events, open, OutputItem::Thoughts).await?;
                let delta = json!({
                    "item_id": item_id("rs", &self.id), "output_index": 0, "content_index": 0, "delta": split.thoughts,
                });
                events.send("response.reasoning_text.delta", delta).await?;
            }
            if !split.answer.is_empty() || is_over && self.has_message() {
                open = self.open(&mut events, open, OutputItem::Message).await?;
            }
            if !split.answer.is_empty() {
                let delta = json!({
                    "item_id": item_id("msg", &self.id),
                    "output_index": self.message_index(),
                    "content_index": 0,
                    "delta": split.answer,
                    "logprobs": [],
                });
                events.send("response.output_text.delta", delta).await?;
            }
            if is_over {
                break;
            }
        }
        if let Err(refused) = self.store().await {
            return events.failed(&refused).await;
        }
        self.close(&mut events, open).await?;
        self.send_calls(&mut events).await?;
        let mut response = self.response();
        response["store"] = is_stored.into();
        let name = if self.progress.is_cut() { "response.incomplete" } else { "response.completed" };
        events.send(name, json!({ "response": response })).await
    }

    /// Sends the calls, after the text.
    async fn send_calls(&self, events: &mut Numbered) -> Result<(), Disconnected> {
        let first = self.message_index() + usize::from(self.has_message());
        for (index, numbered) in self.progress.split.calls.iter().enumerate() {
            let (done, output_index) = (self.call(index, numbered, "completed"), first + index);
            let mut added = self.call(index, numbered, "in_progress");
            added["arguments"] = "".into();
            events.send("response.output_item.added", json!({ "output_index": output_index, "item": added })).await?;
            let at = json!({ "item_id": done["id"], "output_index": output_index });
            let mut delta = at.clone();
            delta["delta"] = done["arguments"].clone();
            events.send("response.function_call_arguments.delta", delta).await?;
            let mut whole = at;
            (whole["name"], whole["arguments"]) = (done["name"].clone(), done["arguments"].clone());
            events.send("response.function_call_arguments.done", whole).await?;
            events.send("response.output_item.done", json!({ "output_index": output_index, "item": done })).await?;
        }
        Ok(())
    }

    /// The index of the message in the output: thoughts come first.
    fn message_index(&self) -> usize {
        usize::from(!self.progress.split.thoughts.is_empty())
    }

    /// Opens an item of the output, and closes the one before it.
    async fn open(
        &self,
        events: &mut Numbered,
        open: Option<OutputItem>,
        item: OutputItem,
    ) -> Result<Option<OutputItem>, Disconnected> {
        if open == Some(item) {
            return Ok(open);
        }
        self.close(events, open).await?;
        match item {
            OutputItem::Thoughts => {
                let item = json!({ "type": "reasoning", "id": item_id("rs", &self.id), "summary": [], "content": [] });
                events.send("response.output_item.added", json!({ "output_index": 0, "item": item })).await?;
            }
            OutputItem::Message => {
                let (id, index) = (item_id("msg", &self.id), self.message_index());
                let mut item = message(&self.id, "", "in_progress");
                item["content"] = json!([]);
                events.send("response.output_item.added", json!({ "output_index": index, "item": item })).await?;
                let added = json!({ "item_id": id, "output_index": index, "content_index": 0, "part": part("") });
                events.send("response.content_part.added", added).await?;
            }
        }
        Ok(Some(item))
    }

    /// Closes an item of the output.
    async fn close(&self, events: &mut Numbered, open: Option<OutputItem>) -> Result<(), Disconnected> {
        let Split { thoughts, answer, .. } = &self.progress.split;
        let output = self.output();
        match open {
            None => Ok(()),
            Some(OutputItem::Thoughts) => {
                let id = item_id("rs", &self.id);
                let done = json!({ "item_id": id, "output_index": 0, "content_index": 0, "text": thoughts });
                events.send("response.reasoning_text.done", done).await?;
                events.send("response.output_item.done", json!({ "output_index": 0, "item": output[0] })).await
            }
            Some(OutputItem::Message) => {
                let (id, index) = (item_id("msg", &self.id), self.message_index());
                let at = json!({ "item_id": id, "output_index": index, "content_index": 0 });
                let mut done = at.clone();
                (done["text"], done["logprobs"]) = (answer.as_str().into(), json!([]));
                events.send("response.output_text.done", done).await?;
                let mut done = at;
                done["part"] = part(answer);
                events.send("response.content_part.done", done).await?;
                let item = &output[index];
                events.send("response.output_item.done", json!({ "output_index": index, "item": item })).await
            }
        }
    }
}

/// Items of the output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputItem {
    Thoughts,
    Message,
}

/// Events with sequence numbers.
struct Numbered {
    to: EventSender,
    next: u64,
}

impl Numbered {
    async fn send(&mut self, kind: &str, mut event: Value) -> Result<(), Disconnected> {
        event["type"] = kind.into();
        event["sequence_number"] = self.next.into();
        self.next += 1;
        self.to.send_named(&event).await
    }

    async fn failed(&mut self, refused: &Refused) -> Result<(), Disconnected> {
        self.send("error", json!({ "code": "server_error", "message": refused.why, "param": null })).await
    }
}
