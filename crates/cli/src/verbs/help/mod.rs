//! `wgoose help WORD`: words that are explained beside the verbs, whose help clap prints.

use std::ffi::OsString;

/// The words that are explained.
const TOPICS: [(&str, &str); 4] = [
    ("plans", include_str!("plans.txt")),
    ("kernels", include_str!("kernels.txt")),
    ("precision", include_str!("precision.txt")),
    ("memory", include_str!("memory.txt")),
];

/// The explanation that a command line asks for; `None` if it asks for something else.
pub(crate) fn explanation(mut arguments: impl Iterator<Item = OsString>) -> Option<&'static str> {
    let (verb, word) = (arguments.nth(1)?, arguments.next()?);
    let word = word.to_str().filter(|_| verb == "help" && arguments.next().is_none())?.to_lowercase();
    TOPICS.into_iter().find_map(|(topic, text)| (topic == word).then_some(text.trim_end()))
}
