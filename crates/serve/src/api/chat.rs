//! `/v1/chat/completions`: answers a conversation, with the template of the RWKV-7 G1 models.

use super::Served;
use super::answer::{ChatRequest, Kind, TextRequest};
use super::fields::Fields;
use super::generation::Generation;
use super::lightning::ThinkType;
use super::messages::{Content, Conversation, Message, SentCall, begins_thinking, is_thinking, prompt};
use super::refused::Refused;
use super::start::StateFields;
use super::structure::Beginning;
use super::tools::Tools;
use axum::response::Response;
use serde::Deserialize;

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
    /// Calls of an earlier answer.
    tool_calls: Option<Vec<SentCall>>,
    /// The call that a message of role 'tool' has the result of.
    tool_call_id: Option<String>,
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
    fn add_to(self, conversation: &mut Conversation) -> Result<(), Refused> {
        let SentMessage { role, content, tool_calls, tool_call_id, .. } = self;
        let text = content.map(|content| content.text(FIELD)).transpose()?;
        let calls = tool_calls.unwrap_or_default();
        match (role.as_str(), text) {
            ("tool", Some(text)) => conversation.add_result(tool_call_id.as_deref(), text),
            ("assistant", text) => {
                conversation.add_answer(text.unwrap_or_default(), calls);
                Ok(())
            }
            (_, Some(text)) if calls.is_empty() && tool_call_id.is_none() => {
                conversation.add(Message { role, text });
                Ok(())
            }
            (_, Some(_)) => Err(Refused::field(FIELD, format_args!("a message of role '{role}' calls no tools"))),
            (_, None) => Err(Refused::field(FIELD, format_args!("a message of role '{role}' has no content"))),
        }
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

/// Takes the messages, whether the model thinks first, and the beginning of the answer.
pub(super) fn messages(fields: &mut Fields) -> Result<(Vec<Message>, bool, &'static str), Refused> {
    let sent: Vec<SentMessage> = fields.need(FIELD)?;
    let mut conversation = Conversation::new(FIELD);
    sent.into_iter().try_for_each(|message| message.add_to(&mut conversation))?;
    let mut messages = conversation.messages();
    let Some(think) = ThinkType::take(fields)? else {
        return Ok((messages, takes_thinking(fields)?, ""));
    };
    if let Some(message) = messages.iter_mut().rfind(|message| message.role == "user") {
        message.text += think.footer();
    }
    Ok((messages, false, think.opening()))
}

pub(super) async fn chat(served: &Served, mut fields: Fields) -> Result<Response, Refused> {
    let mut generation = Generation::take(&mut fields, DEFAULT_TOKENS, served.options.max_tokens)?;
    let (mut messages, think, begun) = messages(&mut fields)?;
    let state = StateFields::take(&mut fields)?;
    let (tools, _) = Tools::take(&mut fields)?;
    fields.finish()?;
    generation.options.stop_strings.push(served.format.stop().to_owned());
    let structure = generation.structure.take();
    let start = state.start(served, generation.count).await?;
    let told = tools.as_ref().filter(|_| served.format.tells_tools()).map(Tools::as_sent);
    if let Some(tools) = tools.as_ref().filter(|_| start.turns.is_empty() && told.is_none()) {
        tools.tell(&mut messages);
    }
    let continued = !start.turns.is_empty();
    let text = prompt(&served.format, FIELD, &messages, told.as_ref(), (continued, think))? + begun;
    let opening = served.format.opening(think).map_err(|why| Refused::field(FIELD, why))? + begun;
    let think = begins_thinking(&opening);
    generation.options.grammar = match (&tools, structure) {
        (Some(tools), structure) => Some(tools.compile(served, structure.as_ref(), think).await?),
        (None, Some(structure)) => Some(structure.compile(served, Beginning::Answer(think)).await?),
        (None, None) => None,
    };
    let message = messages.pop().map(|message| message.text).unwrap_or_default();
    let prompt = served.tokenizer.encode(text.as_bytes());
    if prompt.len() > served.options.max_prompt {
        let (got, most) = (prompt.len(), served.options.max_prompt);
        return Err(Refused::field(FIELD, format_args!("{got} tokens are more than the {most} allowed")));
    }
    let (prompts, openings) = (vec![prompt], vec![String::new()]);
    let calls = tools.as_ref().map(Tools::reader);
    let chat = Some(ChatRequest { message, opening, calls });
    TextRequest { kind: Kind::Chat, prompts, generation, openings, chat, start }.answer(served).await
}
