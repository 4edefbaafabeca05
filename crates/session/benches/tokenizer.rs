//! `cargo bench -p wgoose-session --bench tokenizer`: building the World tokenizer, encoding and decoding.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use wgoose_session::tokenizer::{Tokenizer, parse_vocabulary_text};

const VOCABULARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rwkv_vocab_v20230424.txt"));

/// A mebibyte each of what people feed a model: the multilingual corpus of the golden test, and source code.
fn texts() -> [(&'static str, Vec<u8>); 2] {
    let corpus = include_str!("../tests/fixtures/tokenizer_golden.json");
    let code = concat!(include_str!("../src/tokenizer/mod.rs"), include_str!("../src/tokenizer/trie.rs"));
    let cases: serde_json::Value = serde_json::from_str(corpus).expect("the golden file is JSON");
    let corpus: String =
        cases["cases"].as_array().into_iter().flatten().filter_map(|case| case["text"].as_str()).collect();
    [("multilingual", corpus.as_str()), ("code", code)]
        .map(|(name, text)| (name, text.bytes().cycle().take(1 << 20).collect()))
}

fn build(c: &mut Criterion) {
    c.bench_function("build", |b| {
        b.iter(|| Tokenizer::from_vocabulary(&parse_vocabulary_text(VOCABULARY).expect("parses")).expect("builds"));
    });
}

fn encode_and_decode(c: &mut Criterion) {
    let world = Tokenizer::world();
    for (name, text) in texts() {
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function("encode", |b| b.iter(|| world.encode(black_box(&text))));
        let ids = world.encode(&text);
        group.bench_function("decode", |b| b.iter(|| world.decode(black_box(&ids))));
    }
}

criterion_group!(benches, build, encode_and_decode);
criterion_main!(benches);
