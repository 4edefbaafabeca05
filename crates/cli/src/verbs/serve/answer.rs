//! Answers in the form of OpenAI's, whole or piece by piece as server-sent events.

use super::request::{Asked, Refused};
use serde_json::{Value, json};
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tiny_http::Request;
use wgoose_session::{Ending, Generated, GenerationEvent, Session, SessionError, one_line};

/// What comes before the pieces of a stream.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\
    Connection: close\r\n\r\n";

/// What a request is answered with.
pub(super) enum Answer {
    Whole(Value),
    Stream(Box<Stream>),
}

/// A text that is sent as it is generated.
pub(super) struct Stream {
    heading: Heading,
    prompt: Vec<u32>,
    asked: Asked,
}

/// What text it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Chat,
}

/// What all parts of an answer say.
pub(super) struct Heading {
    kind: Kind,
    id: String,
    created: u64,
    model: String,
}

impl Heading {
    pub(super) fn new(kind: Kind, model: &str) -> Self {
        static ANSWERS: AtomicU64 = AtomicU64::new(0);
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let prefix = if kind == Kind::Chat { "chatcmpl" } else { "cmpl" };
        let id = format!("{prefix}-{created}-{}", ANSWERS.fetch_add(1, Ordering::Relaxed));
        Heading { kind, id, created, model: model.to_owned() }
    }

    fn with(&self, object: &str, choices: &[Value]) -> Value {
        json!({ "id": self.id, "object": object, "created": self.created, "model": self.model, "choices": choices })
    }

    fn whole(&self, text: &str, generated: &Generated) -> Value {
        let reason = reason(generated);
        let (object, said) = match self.kind {
            Kind::Text => ("text_completion", json!({ "text": text })),
            Kind::Chat => ("chat.completion", json!({ "message": { "role": "assistant", "content": text } })),
        };
        let mut answer = self.with(object, &[choice(said, Some(reason))]);
        answer["usage"] = usage(generated);
        answer
    }

    fn piece(&self, text: &str, reason: Option<&str>) -> Value {
        let (object, said) = match (self.kind, reason) {
            (Kind::Text, _) => ("text_completion", json!({ "text": text })),
            (Kind::Chat, None) => ("chat.completion.chunk", json!({ "delta": { "content": text } })),
            (Kind::Chat, Some(_)) => ("chat.completion.chunk", json!({ "delta": {} })),
        };
        self.with(object, &[choice(said, reason)])
    }

    /// Whose text it is: the first piece of a chat.
    fn opening(&self) -> Option<Value> {
        let said = json!({ "delta": { "role": "assistant", "content": "" } });
        (self.kind == Kind::Chat).then(|| self.with("chat.completion.chunk", &[choice(said, None)]))
    }

    /// Generates; a chat's answer begins behind the blank that follows a colon.
    fn generate(
        &self,
        session: &mut Session,
        prompt: &[u32],
        asked: &Asked,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generated, SessionError> {
        session.reset()?;
        let mut begun = self.kind == Kind::Text;
        session.generate_after(prompt, &asked.generate, &mut |event| {
            let GenerationEvent::Text(text) = event else { return ControlFlow::Continue(()) };
            let text = if begun { text } else { text.trim_start() };
            begun |= !text.is_empty();
            if text.is_empty() { ControlFlow::Continue(()) } else { on_text(text) }
        })
    }
}

fn choice(mut said: Value, reason: Option<&str>) -> Value {
    said["index"] = 0.into();
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

fn usage(generated: &Generated) -> Value {
    let (read, written) = (generated.prompt_tokens, generated.tokens.len());
    json!({ "prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written })
}

impl Answer {
    /// A text, whole, or to be sent as it comes.
    pub(super) fn generate(
        session: &mut Session,
        heading: Heading,
        prompt: Vec<u32>,
        asked: Asked,
    ) -> Result<Answer, Refused> {
        if asked.is_stream {
            return Ok(Answer::Stream(Box::new(Stream { heading, prompt, asked })));
        }
        let mut all = String::new();
        let generated = heading.generate(session, &prompt, &asked, &mut |text| {
            all.push_str(text);
            ControlFlow::Continue(())
        })?;
        Ok(Answer::Whole(heading.whole(&all, &generated)))
    }
}

/// Pieces that may wait for a reader, and how long the model waits for one who takes none of them.
const WAITING: usize = 1024;
const PATIENCE: Duration = Duration::from_secs(10);

/// Nobody reads a stream.
pub(super) struct Gone;

/// What goes to a reader, on a thread of its own: one who is slow holds up the model no longer than [`PATIENCE`].
struct Pieces(SyncSender<Vec<u8>>);

impl Pieces {
    fn to(mut reader: Box<dyn Write + Send>) -> Self {
        let (send, pieces) = sync_channel::<Vec<u8>>(WAITING);
        thread::spawn(move || {
            // Where the reader is gone nothing is to be done: the next piece is not taken any more.
            let mut write = |piece: Vec<u8>| reader.write_all(&piece).and_then(|()| reader.flush());
            let _ = pieces.into_iter().try_for_each(&mut write);
        });
        Pieces(send)
    }

    fn event(&self, value: &Value) -> Result<(), Gone> {
        self.send(format!("data: {value}\n\n").into_bytes())
    }

    fn send(&self, mut piece: Vec<u8>) -> Result<(), Gone> {
        let begun = Instant::now();
        loop {
            match self.0.try_send(piece) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(back)) if begun.elapsed() < PATIENCE => piece = back,
                Err(_) => return Err(Gone),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Stream {
    /// Sends a text while it is generated.
    ///
    /// # Errors
    /// The reader is gone, or takes nothing: then no more is generated.
    pub(super) fn send(self, session: &mut Session, request: Request) -> Result<(), Gone> {
        let Stream { heading, prompt, asked } = self;
        let pieces = Pieces::to(request.into_writer());
        pieces.send(HEAD.to_vec())?;
        heading.opening().iter().try_for_each(|opening| pieces.event(opening))?;
        let mut gone = None;
        let generated = heading.generate(session, &prompt, &asked, &mut |text| {
            gone = pieces.event(&heading.piece(text, None)).err();
            if gone.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Some(gone) = gone {
            return Err(gone);
        }
        match generated {
            Ok(generated) => {
                pieces.event(&heading.piece("", Some(reason(&generated))))?;
                if asked.has_usage {
                    let mut last = heading.piece("", None);
                    last["choices"] = json!([]);
                    last["usage"] = usage(&generated);
                    pieces.event(&last)?;
                }
            }
            Err(error) => pieces.event(&json!({ "error": { "message": one_line(&error), "type": "server_error" } }))?,
        }
        pieces.send(b"data: [DONE]\n\n".to_vec())
    }
}
