//! Embeddings of several texts in one go, and how alike they are.
//!
//! `cargo run --release -p wgoose-session --example embed_batch [MODEL]`

mod support;

use std::error::Error;
use wgoose_session::{CancelToken, EmbedOptions, EmbeddingCacheOptions, Level, Pooling, Session};

const TEXTS: [&str; 4] = [
    "The goose flies over the lake.",
    "A swan swims on the water.",
    "let x = vec![1, 2, 3];",
    "The goose flies over the lake.",
];

fn main() -> Result<(), Box<dyn Error>> {
    let (model, _folder) = support::model()?;
    let cache = EmbeddingCacheOptions::default();
    let mut session = Session::builder().embedding_cache(Some(cache)).open(&model)?;

    let tokenizer = session.tokenizer()?;
    let tokens: Vec<Vec<u32>> = TEXTS.iter().map(|text| tokenizer.encode(text.as_bytes())).collect();

    // The mean of the hidden states after the first layer, of length 1; layers above it are not computed.
    let options = EmbedOptions { level: Level::Layer(0), pooling: Pooling::Mean, ..EmbedOptions::default() };
    let vectors = session.embed_batch(&tokens, &options, &CancelToken::default())?;

    println!("{} texts, {} numbers each; cosines:", vectors.len(), vectors[0].len());
    for (text, a) in TEXTS.iter().zip(&vectors) {
        let cosine = |b: &Vec<f32>| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
        let row: Vec<String> = vectors.iter().map(|b| format!("{:6.3}", cosine(b))).collect();
        println!("{}  {text}", row.join(" "));
    }

    // The second time nothing is computed.
    assert_eq!(session.embed_batch(&tokens, &options, &CancelToken::default())?, vectors);
    if let Some(stats) = session.embedding_stats() {
        println!("{} found in the cache, {} computed", stats.hits, stats.misses);
    }
    Ok(())
}
