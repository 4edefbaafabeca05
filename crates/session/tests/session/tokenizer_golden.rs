//! The World tokenizer gives the ids of the reference (`oracle/tokenizer_golden.py`), and the texts back.

use serde_json::Value;
use wgoose_session::tokenizer::{END_OF_TEXT, Tokenizer, UnknownToken, Utf8Stream};

struct Case {
    name: String,
    bytes: Vec<u8>,
    ids: Vec<u32>,
}

fn cases() -> Vec<Case> {
    let golden: Value = serde_json::from_str(include_str!("../fixtures/tokenizer_golden.json")).unwrap();
    let case = |case: &Value| Case {
        name: case["name"].as_str().unwrap().to_owned(),
        bytes: match (case["text"].as_str(), case["hex"].as_str()) {
            (Some(text), None) => text.as_bytes().to_vec(),
            (None, Some(hex)) => {
                (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
            }
            _ => panic!("a case has either text or hex"),
        },
        ids: case["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap().try_into().unwrap()).collect(),
    };
    golden["cases"].as_array().unwrap().iter().map(case).collect()
}

#[test]
fn ids_equal_the_reference() {
    let cases = cases();
    assert!(cases.len() > 40, "only {} cases", cases.len());
    let wrong: Vec<&str> =
        cases.iter().filter(|c| Tokenizer::world().encode(&c.bytes) != c.ids).map(|c| &*c.name).collect();
    assert!(wrong.is_empty(), "other ids than the reference: {wrong:?}");
}

#[test]
fn texts_come_back() {
    for case in cases() {
        assert_eq!(Tokenizer::world().decode(&case.ids).as_ref(), Ok(&case.bytes), "{}", case.name);
        let mut stream = Utf8Stream::new();
        let mut text: String = case.ids.iter().map(|&id| stream.push(Tokenizer::world().token(id).unwrap())).collect();
        text.push_str(&stream.finish());
        assert_eq!(text, String::from_utf8_lossy(&case.bytes), "{}", case.name);
    }
}

#[test]
fn every_world_token_encodes_to_itself() {
    let world = Tokenizer::world();
    assert_eq!(world.len(), 65530);
    for (bytes, id) in world.vocabulary().zip(0..).skip(1) {
        assert_eq!(world.encode(bytes), [id]);
    }
}

#[test]
fn end_of_text_is_silent_and_unused_ids_are_unknown() {
    let world = Tokenizer::world();
    assert_eq!(world.token(END_OF_TEXT), Some(&b""[..]));
    assert_eq!(world.decode(&[34, END_OF_TEXT, 34]), Ok(b"!!".to_vec()));
    assert_eq!(world.token(65530), None);
    assert_eq!(world.decode(&[34, 65535]), Err(UnknownToken { id: 65535, position: 1, len: 65530 }));
}
