//! `/v1/rerank`: orders documents by how well they answer a query, with the field names of Jina, Cohere and vLLM. The
//! score is the cosine of the embeddings of the query and the document, by the retrieval head of the model.

use super::Served;
use super::fields::Fields;
use super::refused::Refused;
use super::texts::Input;
use crate::engine::EngineError;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use wgoose_loader::EmbeddingHead;
use wgoose_session::{EmbedOptions, Pooling, SessionError};

/// Most documents of a request.
const MOST_DOCUMENTS: usize = 16 << 10;

/// A document: a text, or an object with one.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text or an object with a text")]
enum Document {
    Text(String),
    Object { text: String },
}

impl Document {
    fn text(self) -> String {
        match self {
            Document::Text(text) | Document::Object { text } => text,
        }
    }
}

pub(super) async fn rerank(served: &Served, body: &[u8]) -> Result<Response, Refused> {
    let mut fields = Fields::of(body)?;
    let _: Option<String> = fields.take("model")?;
    let query: String = fields.need("query")?;
    let documents: Vec<Document> = fields.need("documents")?;
    let top: Option<usize> = fields.take("top_n")?;
    let has_documents = fields.take("return_documents")?.unwrap_or(false);
    fields.finish()?;
    if documents.len() > MOST_DOCUMENTS {
        let why = format_args!("{} are more than the {MOST_DOCUMENTS} allowed", documents.len());
        return Err(Refused::field("documents", why));
    }
    let documents: Vec<String> = documents.into_iter().map(Document::text).collect();
    let (tokenizer, most) = (&served.tokenizer, served.options.max_prompt);
    let mut texts = Input::Text(query).tokens("query", tokenizer, most)?;
    texts.extend(Input::Texts(documents.clone()).tokens("documents", tokenizer, most)?);
    let read: usize = texts.iter().map(Vec::len).sum();
    let options = EmbedOptions { pooling: Pooling::Head(EmbeddingHead::Retr), ..served.embedding.clone() };
    let embedded = served.engine.embed(texts, options).await.map_err(|why| match why {
        EngineError::Session(why @ SessionError::NoEmbeddingHead { .. }) => {
            Refused::field("model", format_args!("ranking needs the retrieval head of an embedding model: {why}"))
        }
        why => why.into(),
    })?;
    let Some((query, rest)) = embedded.split_first() else {
        return Err(Refused::with(StatusCode::INTERNAL_SERVER_ERROR, "the query has no embedding"));
    };
    let mut scored: Vec<(usize, f64)> = rest.iter().map(|row| cosine(query, row)).enumerate().collect();
    // Equal scores keep the order of the request.
    scored.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    scored.truncate(top.unwrap_or(usize::MAX));
    let result = |(index, score): &(usize, f64)| {
        let mut result = json!({ "index": index, "relevance_score": score });
        if has_documents {
            result["document"] = json!({ "text": documents[*index] });
        }
        result
    };
    let results: Vec<Value> = scored.iter().map(result).collect();
    let usage = json!({ "prompt_tokens": read, "total_tokens": read });
    let answer = json!({ "object": "list", "model": served.options.model, "results": results, "usage": usage });
    Ok(super::json(StatusCode::OK, &answer))
}

/// The cosine of the angle between two vectors; 0 if one has no direction.
fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths > 0.0 { dot(a, b) / lengths } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_are_of_the_angle() {
        assert_eq!(cosine(&[1.0, 0.0], &[2.0, 0.0]), 1.0);
        assert_eq!(cosine(&[0.0, 3.0], &[0.0, -1.0]), -1.0);
        assert_eq!((cosine(&[1.0, 0.0], &[0.0, 5.0]), cosine(&[0.0, 0.0], &[1.0, 1.0])), (0.0, 0.0));
    }
}
