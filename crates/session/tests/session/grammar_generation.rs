//! Texts that a model of random weights generates under a grammar: only the mask makes them what they are.

use crate::support::{on_cpu, tiny};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use wgoose_session::grammar::{Grammar, GrammarCompiler, GrammarSource};
use wgoose_session::sampling::SamplerOptions;
use wgoose_session::tokenizer::Tokenizer;
use wgoose_session::{
    BatchEvent, BatchRequest, Chat, ChatOptions, Ending, GenerateOptions, Generated, GenerationEvent, Session,
    SessionError,
};

fn generate(session: &mut Session, options: &GenerateOptions) -> Result<(String, Generated), SessionError> {
    let mut text = String::new();
    session.reset()?;
    let generated = session.generate(b"A goose", options, &mut |event| {
        if let GenerationEvent::Text(piece) = event {
            text.push_str(piece);
        }
        ControlFlow::Continue(())
    })?;
    Ok((text, generated))
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "maxLength": 6 },
            "age": { "type": "integer", "minimum": 0, "maximum": 130 },
            "kinds": { "type": "array", "items": { "enum": ["goose", "swan"] }, "minItems": 1, "maxItems": 3 },
        },
        "required": ["name", "age", "kinds"],
        "additionalProperties": false,
    })
}

fn is_of_schema(text: &str) -> bool {
    let value: Value = serde_json::from_str(text).unwrap();
    let kinds = value["kinds"].as_array().unwrap();
    value.as_object().unwrap().keys().eq(["name", "age", "kinds"])
        && value["name"].as_str().unwrap().chars().count() <= 6
        && value["age"].as_u64().unwrap() <= 130
        && (1..=3).contains(&kinds.len())
        && kinds.iter().all(|kind| kind == "goose" || kind == "swan")
}

fn under(grammar: &Grammar, temperature: f32, seed: u64) -> GenerateOptions {
    let sampling = SamplerOptions { temperature, seed, ..SamplerOptions::default() };
    GenerateOptions { sampling, max_tokens: 600, grammar: Some(grammar.clone()), ..GenerateOptions::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn random_weights_write_what_the_schema_says(weights in 0u64..1000, seed in any::<u64>(), temperature in 0f32..3.0) {
        let mut session = on_cpu(&tiny(weights));
        let grammar = session.grammars().unwrap().compile(&GrammarSource::JsonSchema(schema())).unwrap();
        let (text, generated) = generate(&mut session, &under(&grammar, temperature, seed)).unwrap();
        prop_assert_eq!(generated.ending, Ending::StopToken(0), "{}", text);
        prop_assert!(is_of_schema(&text), "{}", text);
        // The text is the same in a batch.
        session.reset().unwrap();
        let mut batch = session.batch(3).unwrap();
        let prompt = session.tokenizer().unwrap().encode(b"A goose");
        let free = GenerateOptions { max_tokens: 20, ..GenerateOptions::default() };
        batch.join_request(BatchRequest::new(prompt.clone(), free)).unwrap();
        let id = batch.join_request(BatchRequest::new(prompt, under(&grammar, temperature, seed))).unwrap();
        let mut same = String::new();
        while !batch.is_idle() {
            for event in batch.step().unwrap() {
                match event {
                    BatchEvent::Text(of, piece) if of == id => same += &piece,
                    BatchEvent::Ended(of, ended) if of == id => prop_assert_eq!(&ended, &generated),
                    BatchEvent::Failed(_, why) => panic!("{why}"),
                    _ => {}
                }
            }
        }
        prop_assert_eq!(same, text);
    }
}

#[test]
fn a_grammar_ends_the_text_whatever_the_stop_tokens_are() {
    let mut session = on_cpu(&tiny(1));
    let choice = GrammarSource::Choice(vec!["goose".to_owned(), "swan".to_owned()]);
    let grammar = session.grammars().unwrap().compile(&choice).unwrap();
    let options = GenerateOptions { stop_tokens: Vec::new(), ..under(&grammar, 1.0, 3) };
    let (text, generated) = generate(&mut session, &options).unwrap();
    assert!(text == "goose" || text == "swan", "{text}");
    assert_eq!((generated.ending, generated.read()), (Ending::StopToken(0), &generated.tokens[..]));
    let (text, generated) = generate(&mut session, &GenerateOptions { max_tokens: 2, ..options.clone() }).unwrap();
    assert_eq!((generated.ending, generated.tokens.len()), (Ending::MaxTokens, 2));
    assert!("goose".starts_with(&text) || "swan".starts_with(&text), "{text}");
    // Biases that leave nothing of the grammar are an error.
    let mut ruled_out = options;
    let tokens = session.tokenizer().unwrap().clone();
    let beginnings = (0..tokens.len() as u32).filter(|t| {
        tokens
            .token(*t)
            .is_some_and(|bytes| !bytes.is_empty() && (b"goose".starts_with(bytes) || b"swan".starts_with(bytes)))
    });
    ruled_out.sampling.bias = beginnings.map(|token| (token, f32::NEG_INFINITY)).collect();
    assert!(matches!(generate(&mut session, &ruled_out), Err(SessionError::Sample(_))));
}

#[test]
fn a_grammar_of_another_vocabulary_is_refused() {
    let mut session = on_cpu(&tiny(1));
    let bytes = GrammarCompiler::new(Tokenizer::bytes(), 256);
    let options = under(&bytes.compile(&GrammarSource::JsonObject).unwrap(), 1.0, 3);
    let why = generate(&mut session, &options).unwrap_err().to_string();
    assert!(why.contains("256 token ids, this one has 320"), "{why}");
    let joined = session.batch(1).unwrap().join(b"A goose", &options);
    assert_eq!(joined.unwrap_err().to_string(), why);
}

#[test]
fn thoughts_come_before_the_grammar() {
    let session = on_cpu(&tiny(2));
    let answer = session.grammars().unwrap().compile_answer(&GrammarSource::Choice(vec!["honk".to_owned()])).unwrap();
    let mut options = ChatOptions { think: true, generate: under(&answer, 1.0, 5), ..ChatOptions::default() };
    options.generate.max_tokens = 30;
    let mut chat = Chat::new(session, options);
    let generated = chat.say("Honk?", &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(generated.ending, Ending::MaxTokens, "random weights do not end thoughts, and the text may not end");
    assert_eq!(generated.tokens.len(), 30);
}
