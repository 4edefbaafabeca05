//! What is encoded.

use wgoose_session::tokenizer::Tokenizer;

/// A text with a name.
pub struct Text {
    /// What kind it is.
    pub name: &'static str,
    /// A mebibyte of it, less what the last character misses.
    pub text: String,
}

/// The cases of the golden corpus that are prose in one language or more.
const PROSE: [&str; 13] = [
    "english",
    "chat",
    "chinese",
    "chinese traditional",
    "japanese",
    "korean",
    "arabic",
    "hebrew",
    "hindi",
    "thai",
    "russian",
    "greek and accents",
    "emoji",
];

/// The case that llama.cpp reads otherwise: `<s>` in a text is a token of its own to it, even where it is told to see no
/// special tokens.
const SPECIAL: &str = "special names";

/// The golden corpus (prose, code, runs of spaces and rules, rare characters), mixed languages, and every token of the
/// vocabulary that is text in an order that no cache foresees.
pub fn texts() -> [Text; 3] {
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("../../crates/session/tests/fixtures/tokenizer_golden.json"))
            .expect("the golden file is JSON");
    let cases = || golden["cases"].as_array().into_iter().flatten();
    let texts_of = |wanted: &dyn Fn(&str) -> bool| -> String {
        let wanted = |case: &&serde_json::Value| case["name"].as_str().is_some_and(wanted);
        cases().filter(wanted).filter_map(|case| case["text"].as_str()).collect()
    };
    let mut tokens: Vec<&str> =
        Tokenizer::world().vocabulary().filter_map(|token| std::str::from_utf8(token).ok()).collect();
    shuffle(&mut tokens);
    [
        Text { name: "corpus", text: mebibyte(&texts_of(&|name| name != SPECIAL)) },
        Text { name: "languages", text: mebibyte(&texts_of(&|name| PROSE.contains(&name))) },
        Text { name: "vocabulary", text: mebibyte(&tokens.concat()) },
    ]
}

/// Repeats a text up to a mebibyte.
fn mebibyte(text: &str) -> String {
    let repeated = text.repeat((1 << 20) / text.len() + 1);
    let end = (0..=1 << 20).rev().find(|end| repeated.is_char_boundary(*end)).unwrap_or(0);
    repeated[..end].to_owned()
}

/// The same order on every machine.
fn shuffle(tokens: &mut [&str]) {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..tokens.len()).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        tokens.swap(last, (random >> 33) as usize % (last + 1));
    }
}
