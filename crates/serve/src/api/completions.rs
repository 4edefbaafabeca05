//! `/v1/completions`: continues prompts.

use super::Served;
use super::answer::{Kind, TextRequest};
use super::fields::Fields;
use super::generation::Generation;
use super::refused::Refused;
use super::start::StateFields;
use super::structure::Beginning;
use super::texts::Input;
use axum::response::Response;

/// Default of `max_tokens`, as in OpenAI's interface.
const DEFAULT_TOKENS: usize = 16;

pub(super) async fn complete(served: &Served, mut fields: Fields) -> Result<Response, Refused> {
    let mut generation = Generation::take(&mut fields, DEFAULT_TOKENS, served.options.max_tokens)?;
    let prompt: Input = fields.need("prompt")?;
    let echo = fields.take("echo")?.unwrap_or(false);
    if echo && generation.options.logprobs.is_some() {
        return Err(Refused::field("logprobs", "\"echo\" asks for those of the prompt, which are not computed"));
    }
    let state = StateFields::take(&mut fields)?;
    fields.finish()?;
    let prompts = prompt.tokens("prompt", &served.tokenizer, served.options.max_prompt)?;
    let opening = |tokens: &Vec<u32>| match echo {
        true => served.text(tokens),
        false => String::new(),
    };
    let openings = prompts.iter().map(opening).collect();
    if let Some(structure) = generation.structure.take() {
        generation.options.grammar = Some(structure.compile(served, Beginning::Prompt).await?);
    }
    let start = state.start(served, prompts.len() * generation.count).await?;
    TextRequest { kind: Kind::Text, prompts, generation, openings, chat: None, start }.answer(served).await
}
