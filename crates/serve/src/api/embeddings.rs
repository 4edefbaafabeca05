//! `/v1/embeddings`: embeds texts.

use super::Served;
use super::fields::Fields;
use super::refused::Refused;
use super::texts::Input;
use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use wgoose_loader::{EmbeddingHead, UnknownEmbeddingHead};
use wgoose_session::{EmbedOptions, Pooling};

/// Most texts of a request.
const MOST_TEXTS: usize = 16 << 10;

/// The requested head of an embedding model: the field `head`, or the model `NAME:HEAD`.
fn head(fields: &mut Fields) -> Result<Option<EmbeddingHead>, Refused> {
    let model: Option<String> = fields.take("model")?;
    if let Some(head) = fields.take::<String>("head")? {
        return head.parse().map(Some).map_err(|why: UnknownEmbeddingHead| Refused::field("head", why));
    }
    // A colon may also belong to the name of the model.
    Ok(model.as_ref().and_then(|model| model.rsplit_once(':')).and_then(|(_, head)| head.parse().ok()))
}

pub(super) async fn embed(served: &Served, body: &[u8]) -> Result<Response, Refused> {
    let mut fields = Fields::of(body)?;
    let head = head(&mut fields)?;
    let input: Input = fields.need("input")?;
    let is_base64 = match fields.take::<String>("encoding_format")?.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => {
            return Err(Refused::field("encoding_format", format_args!("'{other}' is neither float nor base64")));
        }
    };
    let dimensions: Option<usize> = fields.take("dimensions")?;
    fields.finish()?;
    let texts = input.tokens("input", &served.tokenizer, served.options.max_prompt)?;
    if texts.len() > MOST_TEXTS {
        return Err(Refused::field(
            "input",
            format_args!("{} texts are more than the {MOST_TEXTS} allowed", texts.len()),
        ));
    }
    let read: usize = texts.iter().map(Vec::len).sum();
    let options =
        EmbedOptions { pooling: head.map_or(served.embedding.pooling, Pooling::Head), ..served.embedding.clone() };
    let embedded = served.engine.embed(texts, options).await?;
    if let (Some(asked), Some(len)) = (dimensions, embedded.first().map(Vec::len))
        && asked != len
    {
        return Err(Refused::field("dimensions", format_args!("embeddings of this model have {len}: leave it out")));
    }
    let of = |(index, embedding): (usize, &Vec<f32>)| {
        let embedding = match is_base64 {
            true => Value::from(STANDARD.encode(embedding.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>())),
            false => json!(embedding),
        };
        json!({ "object": "embedding", "index": index, "embedding": embedding })
    };
    let data: Vec<Value> = embedded.iter().enumerate().map(of).collect();
    let usage = json!({ "prompt_tokens": read, "total_tokens": read });
    let answer = json!({ "object": "list", "data": data, "model": served.options.model, "usage": usage });
    Ok(super::json(StatusCode::OK, &answer))
}
