//! `/v1/chat/completions`: answers a conversation, with the template of the RWKV-7 G1 models.

use super::Served;
use super::answer::{ChatRequest, Kind, TextRequest};
use super::fields::Fields;
use super::generation::Generation;
use super::lightning::ThinkType;
use super::messages::{Content, Message, is_thinking, prompt};
use super::refused::Refused;
use super::start::StateFields;
use axum::response::Response;
use serde::Deserialize;
use wgoose_session::{NEXT_USER, THINKING};

/// The field of the messages.
pub(super) const FIELD: &str = "messages";

/// Default of `max_tokens`.
const DEFAULT_TOKENS: usize = 2048;

/// A message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SentMessage {
    role: String,
    /// Null in answers without text.
    content: Option<Content>,
    /// The template has no names of participants.
    #[serde(default, rename = "name")]
    _name: Option<String>,
    /// Parts of answers that clients send back: thoughts are no part of the conversation.
    #[serde(default, rename = "refusal")]
    _refusal: Option<String>,
    #[serde(default, rename = "reasoning_content")]
    _reasoning_content: Option<String>,
}

impl SentMessage {
    fn message(self) -> Result<Message, Refused> {
        let text = match self.content {
            Some(content) => content.text(FIELD)?,
            None if self.role == "assistant" => String::new(),
            None => {
                return Err(Refused::field(FIELD, format_args!("a message of role '{}' has no content", self.role)));
            }
        };
        Ok(Message { role: self.role, text })
    }
}

/// Arguments of chat templates, as in vLLM's interface.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TemplateArguments {
    enable_thinking: Option<bool>,
}

/// Whether the model thinks before it answers: `reasoning_effort` other than "none", or
/// `chat_template_kwargs.enable_thinking`.
fn takes_thinking(fields: &mut Fields) -> Result<bool, Refused> {
    let effort: Option<String> = fields.take("reasoning_effort")?;
    let arguments: Option<TemplateArguments> = fields.take("chat_template_kwargs")?;
    let by_template = arguments.and_then(|arguments| arguments.enable_thinking).unwrap_or(false);
    Ok(is_thinking("reasoning_effort", effort.as_deref())?.unwrap_or(by_template))
}

/// Takes the messages, and the beginning of the answer.
pub(super) fn messages(fields: &mut Fields) -> Result<(Vec<Message>, &'static str), Refused> {
    let sent: Vec<SentMessage> = fields.need(FIELD)?;
    let mut messages = sent.into_iter().map(SentMessage::message).collect::<Result<Vec<_>, _>>()?;
    let Some(think) = ThinkType::take(fields)? else {
        return Ok((messages, if takes_thinking(fields)? { THINKING } else { "" }));
    };
    if let Some(message) = messages.iter_mut().rfind(|message| message.role == "user") {
        message.text += think.footer();
    }
    Ok((messages, think.opening()))
}

pub(super) async fn chat(served: &Served, mut fields: Fields) -> Result<Response, Refused> {
    let mut generation = Generation::take(&mut fields, DEFAULT_TOKENS, served.options.max_tokens)?;
    let (mut messages, opening) = messages(&mut fields)?;
    let state = StateFields::take(&mut fields)?;
    fields.finish()?;
    generation.options.stop_strings.push(NEXT_USER.to_owned());
    let start = state.start(served, generation.count).await?;
    let text = prompt(FIELD, &messages, !start.turns.is_empty(), false)? + opening;
    let message = messages.pop().map(|message| message.text).unwrap_or_default();
    let prompt = served.tokenizer.encode(text.as_bytes());
    if prompt.len() > served.options.max_prompt {
        let (got, most) = (prompt.len(), served.options.max_prompt);
        return Err(Refused::field(FIELD, format_args!("{got} tokens are more than the {most} allowed")));
    }
    let (prompts, openings) = (vec![prompt], vec![String::new()]);
    let chat = Some(ChatRequest { message, opening });
    TextRequest { kind: Kind::Chat, prompts, generation, openings, chat, start }.answer(served).await
}
