//! Log-probabilities in the formats of OpenAI's interface: of chats and of completions.

use super::answer::Kind;
use super::fields::Fields;
use super::refused::Refused;
use serde_json::{Map, Value, json};
use wgoose_runtime::{Logprob, MOST_LISTED};
use wgoose_session::sampling::TokenLogprobs;
use wgoose_session::tokenizer::Tokenizer;

/// Takes `logprobs` and `top_logprobs`: how many of the likeliest tokens come with every token. Chats say `true` and a
/// number, completions say the number.
///
/// # Errors
/// A field is of another type, or too many tokens are asked for.
pub(super) fn take(fields: &mut Fields) -> Result<Option<u8>, Refused> {
    let likeliest: Option<u64> = fields.take("top_logprobs")?;
    let (field, listed) = match (fields.take::<Value>("logprobs")?, likeliest) {
        (None | Some(Value::Bool(false)), None | Some(0)) => return Ok(None),
        (None | Some(Value::Bool(false)), Some(_)) => {
            return Err(Refused::field("top_logprobs", "\"logprobs\": true is missing"));
        }
        (Some(Value::Bool(true)), listed) => ("top_logprobs", listed.unwrap_or(0)),
        (Some(number), None) => {
            let listed = number.as_u64();
            let wrong = || Refused::field("logprobs", format_args!("{number} is neither a number nor true or false"));
            ("logprobs", listed.ok_or_else(wrong)?)
        }
        (Some(_), Some(_)) => {
            return Err(Refused::field("top_logprobs", "\"logprobs\" says the same: give one number"));
        }
    };
    match u8::try_from(listed) {
        Ok(listed) if usize::from(listed) <= MOST_LISTED => Ok(Some(listed)),
        _ => Err(Refused::field(field, format_args!("{listed} are more than the {MOST_LISTED} possible"))),
    }
}

/// The log-probabilities of some tokens of a text; `offset` is the number of characters before them, and then of those
/// before the next ones.
pub(super) fn listed(kind: Kind, tokens: &[TokenLogprobs], tokenizer: &Tokenizer, offset: &mut usize) -> Value {
    match kind {
        Kind::Chat => {
            let content: Vec<Value> = tokens
                .iter()
                .map(|token| {
                    let mut listed = of_chat(&token.chosen, tokenizer);
                    listed["top_logprobs"] = token.likeliest.iter().map(|other| of_chat(other, tokenizer)).collect();
                    listed
                })
                .collect();
            json!({ "content": content, "refusal": null })
        }
        Kind::Text => {
            let mut offsets = Vec::new();
            for token in tokens {
                offsets.push(*offset);
                *offset += text(&token.chosen, tokenizer).chars().count();
            }
            // Of tokens with the same text the likeliest is given.
            let likeliest = |token: &TokenLogprobs| -> Value {
                let by_text = token.likeliest.iter().rev().map(|other| (text(other, tokenizer), other.logprob.into()));
                by_text.collect::<Map<String, Value>>().into()
            };
            json!({
                "tokens": tokens.iter().map(|token| text(&token.chosen, tokenizer)).collect::<Vec<_>>(),
                "token_logprobs": tokens.iter().map(|token| token.chosen.logprob).collect::<Vec<_>>(),
                "top_logprobs": tokens.iter().map(likeliest).collect::<Vec<_>>(),
                "text_offset": offsets,
            })
        }
    }
}

fn of_chat(token: &Logprob, tokenizer: &Tokenizer) -> Value {
    let bytes = tokenizer.token(token.token).unwrap_or_default();
    json!({ "token": text(token, tokenizer), "logprob": token.logprob, "bytes": bytes })
}

/// The text of a token; bytes that are no character become U+FFFD.
fn text(token: &Logprob, tokenizer: &Tokenizer) -> String {
    String::from_utf8_lossy(tokenizer.token(token.token).unwrap_or_default()).into_owned()
}
