//! Requests. Unknown fields are ignored, unless they would change the answer.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use wgoose_loader::{EmbeddingHead, UnknownEmbeddingHead};
use wgoose_session::sampling::{Penalties, SamplerOptions};
use wgoose_session::{ChatMessage, GenerateOptions, NEXT_USER, Session, conversation};

/// Why a request is not answered, and with which status.
pub(super) struct Refused {
    pub(super) status: u16,
    pub(super) why: String,
}

impl Refused {
    /// The request is to blame.
    pub(super) fn wrong(why: String) -> Self {
        Refused { status: 400, why }
    }
}

/// A text, or several.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Texts {
    One(String),
    Several(Vec<String>),
}

impl Texts {
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        match self {
            Texts::One(text) => std::slice::from_ref(text),
            Texts::Several(texts) => texts,
        }
        .iter()
        .map(String::as_str)
    }
}

/// What is to be continued.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Prompt {
    Tokens(Vec<u32>),
    Texts(Texts),
}

impl Prompt {
    pub(super) fn tokens(&self, session: &Session) -> Result<Vec<u32>, Refused> {
        match self {
            Prompt::Tokens(tokens) => Ok(tokens.clone()),
            Prompt::Texts(texts) => match &texts.texts().collect::<Vec<_>>()[..] {
                [text] => super::tokens(session, text),
                _ => Err(Refused::wrong("prompt: one text is answered at a time".to_owned())),
            },
        }
    }
}

/// A text to continue.
#[derive(Deserialize)]
pub(super) struct Completion {
    pub(super) prompt: Prompt,
    #[serde(flatten)]
    pub(super) options: Options,
}

/// Texts to embed.
#[derive(Deserialize)]
pub(super) struct Embeddings {
    pub(super) input: Texts,
    head: Option<String>,
    model: Option<String>,
}

impl Embeddings {
    /// The head of an embedding model that is asked for: by the field `head`, or as the model `NAME:HEAD`.
    pub(super) fn head(&self) -> Result<Option<EmbeddingHead>, Refused> {
        if let Some(head) = &self.head {
            return head.parse().map(Some).map_err(|why: UnknownEmbeddingHead| Refused::wrong(format!("head: {why}")));
        }
        // Names of models have colons for other reasons, too.
        let named = self.model.as_ref().and_then(|model| model.rsplit_once(':'));
        Ok(named.and_then(|(_, head)| head.parse().ok()))
    }
}

/// A conversation to go on with.
#[derive(Deserialize)]
pub(super) struct Chat {
    messages: Vec<Message>,
    #[serde(flatten)]
    options: Options,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Content,
}

/// A text, or its parts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: String,
}

/// Most tokens of an answer, where none is asked for.
const ANSWER: usize = 2048;

impl Chat {
    /// The conversation up to where the model answers.
    pub(super) fn text(&self) -> Result<String, Refused> {
        let text = |message: &Message| match &message.content {
            Content::Text(text) => Ok(text.clone()),
            Content::Parts(parts) => match parts.iter().find(|part| part.kind != "text") {
                Some(part) => Err(Refused::wrong(format!("messages: a part of type '{}' is no text", part.kind))),
                None => Ok(parts.iter().map(|part| part.text.as_str()).collect()),
            },
        };
        let texts = self.messages.iter().map(text).collect::<Result<Vec<String>, _>>()?;
        let said = self.messages.iter().zip(&texts).map(|(message, text)| match message.role.as_str() {
            "system" | "developer" => Ok(ChatMessage::System(text)),
            "user" => Ok(ChatMessage::User(text)),
            "assistant" => Ok(ChatMessage::Assistant(text)),
            other => Err(Refused::wrong(format!("messages: role '{other}' is none of system, user, assistant"))),
        });
        let said = said.collect::<Result<Vec<_>, _>>()?;
        if said.is_empty() {
            return Err(Refused::wrong("messages: nothing was said".to_owned()));
        }
        Ok(conversation(&said, false))
    }

    pub(super) fn checked(self) -> Result<Asked, Refused> {
        let mut asked = self.options.checked(ANSWER)?;
        asked.generate.stop_strings.push(NEXT_USER.to_owned());
        Ok(asked)
    }
}

/// How to generate.
#[derive(Deserialize)]
pub(super) struct Options {
    #[serde(alias = "max_completion_tokens")]
    max_tokens: Option<usize>,
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<usize>,
    presence_penalty: Option<f32>,
    frequency_penalty: Option<f32>,
    logit_bias: Option<BTreeMap<String, f32>>,
    seed: Option<u64>,
    stop: Option<Texts>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    /// Everything else.
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

/// What is generated, and how it is sent.
pub(super) struct Asked {
    pub(super) generate: GenerateOptions,
    pub(super) is_stream: bool,
    /// Whether a stream ends with how many tokens there were.
    pub(super) has_usage: bool,
}

/// What would change the answer, with the values that do not.
const REFUSED: [(&str, &[&str]); 10] = [
    ("n", &["1"]),
    ("best_of", &["1"]),
    ("echo", &["false"]),
    ("suffix", &["\"\""]),
    ("logprobs", &["false"]),
    ("top_logprobs", &["0"]),
    ("tools", &["[]"]),
    ("functions", &["[]"]),
    ("response_format", &["{\"type\":\"text\"}"]),
    ("grammar", &["\"\""]),
];

impl Options {
    /// With so many tokens at most where it is not said.
    pub(super) fn checked(self, max_tokens: usize) -> Result<Asked, Refused> {
        for (name, same) in REFUSED {
            let value = self.others.get(name).filter(|value| !value.is_null()).map(Value::to_string);
            if value.is_some_and(|value| !same.contains(&value.as_str())) {
                return Err(Refused::wrong(format!("{name}: it cannot be honoured, leave it out")));
            }
        }
        let wrong = |token: &str| Refused::wrong(format!("logit_bias: '{token}' is no token id"));
        let bias = self.logit_bias.into_iter().flatten();
        let bias = bias.map(|(token, bias)| Ok((token.parse().map_err(|_| wrong(&token))?, bias)));
        let usual = SamplerOptions::default();
        let sampling = SamplerOptions {
            temperature: self.temperature.unwrap_or(usual.temperature),
            top_p: self.top_p.unwrap_or(0.5),
            top_k: self.top_k.and_then(NonZeroUsize::new),
            penalties: Penalties {
                presence: self.presence_penalty.unwrap_or(0.0),
                frequency: self.frequency_penalty.unwrap_or(0.0),
                ..Penalties::default()
            },
            bias: bias.collect::<Result<_, Refused>>()?,
            seed: self.seed.unwrap_or_else(drawn),
            ..usual
        };
        let stop_strings = self.stop.iter().flat_map(Texts::texts).map(str::to_owned).collect();
        let max_tokens = self.max_tokens.unwrap_or(max_tokens);
        Ok(Asked {
            generate: GenerateOptions { sampling, max_tokens, stop_strings, ..GenerateOptions::default() },
            is_stream: self.stream.unwrap_or(false),
            has_usage: self.stream_options.is_some_and(|options| options.include_usage),
        })
    }
}

/// A seed that is another each time.
fn drawn() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
