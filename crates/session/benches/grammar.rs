//! `cargo bench -p wgoose-session --bench grammar`: compiling a grammar, and masks of a text under it, with the World
//! vocabulary; for one sequence and for 32 in parallel.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rayon::prelude::*;
use serde_json::json;
use std::hint::black_box;
use wgoose_session::grammar::{Grammar, GrammarCompiler, GrammarSource, Matcher};
use wgoose_session::tokenizer::Tokenizer;

const TEXT: &str = r#"{"name": "Grete Gans, a goose", "age": 12, "tags": ["wild", "goose"],
  "address": {"street": "Am See 12, Hinterhaus", "zip": "12345"}}"#;

fn schema(name: &str) -> GrammarSource {
    GrammarSource::JsonSchema(json!({
        "title": name,
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "age": { "type": "integer", "minimum": 0, "maximum": 130 },
            "tags": { "type": "array", "items": { "enum": ["wild", "tame", "goose"] } },
            "address": { "$ref": "#/$defs/address" },
        },
        "required": ["name", "age", "address"],
        "additionalProperties": false,
        "$defs": { "address": {
            "type": "object",
            "properties": {
                "street": { "type": "string", "maxLength": 40 },
                "zip": { "type": "string", "pattern": "^[0-9]{5}$" },
            },
            "required": ["street", "zip"],
            "additionalProperties": false,
        } },
    }))
}

/// Computes the mask of every token of the text, for all sequences in parallel.
fn masks(matchers: &mut [Matcher], tokens: &[u32]) {
    for token in tokens {
        matchers.par_iter_mut().for_each(|matcher| {
            matcher.compute_mask().expect("the text is of the schema");
            black_box(matcher.mask());
        });
        matchers.iter_mut().for_each(|matcher| matcher.push(*token).expect("the text is of the schema"));
    }
}

fn grammar(c: &mut Criterion) {
    let compiler = GrammarCompiler::new(Tokenizer::world().clone(), 65_536);
    let compile = |source: &GrammarSource| compiler.compile(source).expect("it is a schema");
    let grammar = compile(&schema("address"));
    let mut names = 0..;
    c.bench_function("compile", |b| {
        b.iter(|| compile(&schema(&format!("{:?}", names.next()))));
    });
    let tokens = Tokenizer::world().encode(TEXT.as_bytes());
    let mut group = c.benchmark_group("masks");
    for sequences in [1, 32] {
        group.throughput(Throughput::Elements((sequences * tokens.len()) as u64));
        let begin = || (0..sequences).map(|_| Grammar::matcher(&grammar)).collect::<Vec<_>>();
        group.bench_function(format!("{sequences} sequences"), |b| {
            b.iter_batched(begin, |mut matchers| masks(&mut matchers, &tokens), BatchSize::LargeInput);
        });
    }
}

criterion_group!(benches, grammar);
criterion_main!(benches);
