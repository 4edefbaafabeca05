//! Finds calls in the text of an answer, as it comes.
//!
//! The text that no decision was made for is held back. A decision depends only on that text, so that the pieces in
//! which it came do not matter.

use super::call::ToolCall;
use super::payload::{Json, json};
use serde_json::Value;

/// What calls begin with, and end with.
const MARKERS: [Marker; 4] = [
    Marker { begin: "<tool_call>", end: Some("</tool_call>"), is_sure: true },
    Marker { begin: "<tool_calls>", end: Some("</tool_calls>"), is_sure: true },
    Marker { begin: "**Tool Call:**", end: None, is_sure: true },
    Marker { begin: FENCE, end: None, is_sure: false },
];

/// A block of code.
const FENCE: &str = "```";

/// Texts between a marker and the JSON of its calls, and between them.
const FILLERS: [&str; 6] = ["```json", "```tool_call", FENCE, "<tool_call>", "</tool_call>", ","];

struct Marker {
    begin: &'static str,
    end: Option<&'static str>,
    /// Whether nothing but a call follows it. Else it is one only if it names a tool.
    is_sure: bool,
}

/// Reads an answer in pieces.
#[derive(Clone, Debug)]
pub struct CallReader {
    /// Names of the tools.
    names: Vec<String>,
    held: String,
    /// Whether nothing but blanks and calls has come.
    is_beginning: bool,
    /// Whether nothing but blanks has come after a call: they are no text.
    is_after_call: bool,
}

/// What a piece of an answer has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadText {
    /// Text that is no part of a call.
    pub text: String,
    /// The calls that are complete.
    pub calls: Vec<ToolCall>,
}

/// What the beginning of the held text is.
enum Found {
    /// That many bytes are text.
    Text(usize),
    /// That many bytes are these calls.
    Calls(Vec<ToolCall>, usize),
    /// More has to come.
    Undecided,
}

impl CallReader {
    /// A reader of an answer of a model that has tools of these names. Calls of other names are read too, if they are
    /// marked as calls; JSON without a mark is a call only if it names a tool.
    pub fn new(names: Vec<String>) -> Self {
        CallReader { names, held: String::new(), is_beginning: true, is_after_call: false }
    }

    /// Takes the next piece of an answer.
    pub fn push(&mut self, piece: &str) -> ReadText {
        self.held.push_str(piece);
        self.read(false)
    }

    /// The text that was held back, as no more comes.
    pub fn finish(&mut self) -> ReadText {
        self.read(true)
    }

    fn read(&mut self, is_end: bool) -> ReadText {
        let mut read = ReadText::default();
        loop {
            if self.is_after_call {
                self.held = self.held.trim_start().to_owned();
            }
            if self.held.is_empty() {
                break;
            }
            match self.found(is_end) {
                Found::Text(bytes) => {
                    read.text.extend(self.held.drain(..bytes));
                    (self.is_beginning, self.is_after_call) = (false, false);
                }
                Found::Calls(calls, bytes) => {
                    self.held.drain(..bytes);
                    read.calls.extend(calls);
                    self.is_after_call = true;
                }
                Found::Undecided => break,
            }
        }
        read
    }

    fn found(&self, is_end: bool) -> Found {
        let held = self.held.as_str();
        let begun = held.trim_start();
        let blanks = held.len() - begun.len();
        if self.is_beginning && begun.is_empty() && !is_end {
            return Found::Undecided;
        }
        // A whole answer may be the JSON of a call.
        if self.is_beginning && begun.starts_with(['{', '[']) {
            return self.unmarked(begun, blanks, is_end);
        }
        let first =
            MARKERS.iter().filter_map(|marker| Some((held.find(marker.begin)?, marker))).min_by_key(|(at, _)| *at);
        let Some((at, marker)) = first else {
            let text = if is_end { held.len() } else { certain(held) };
            return if text == 0 { Found::Undecided } else { Found::Text(text) };
        };
        // Blanks before a call are no part of the text.
        let text = held[..at].trim_end().len();
        if text > 0 {
            return Found::Text(text);
        }
        match self.marked(marker, &held[at + marker.begin.len()..], is_end) {
            Found::Calls(calls, bytes) => Found::Calls(calls, at + marker.begin.len() + bytes),
            Found::Text(bytes) => Found::Text(at + marker.begin.len() + bytes),
            Found::Undecided => Found::Undecided,
        }
    }

    /// The calls after a marker. [`Found::Text`]: there are none, and that many more bytes are text too.
    fn marked(&self, marker: &Marker, after: &str, is_end: bool) -> Found {
        let (mut calls, mut at, mut is_block) = (Vec::new(), 0, !marker.is_sure);
        if is_block {
            match info(after, is_end) {
                Info::Json(bytes) => at = bytes,
                Info::Other => return Found::Text(0),
                Info::Undecided => return Found::Undecided,
            }
        }
        loop {
            let rest = after[at..].trim_start();
            let begin = after.len() - rest.len();
            // Without an end marker, a marker has one value; a block of code ends with it.
            let has_value = marker.end.is_none() && !calls.is_empty();
            if has_value && !is_block {
                return decided(calls, at);
            }
            let end = marker.end.or(has_value.then_some(FENCE));
            if let Some(end) = end.filter(|end| rest.starts_with(end)) {
                return decided(calls, begin + end.len());
            }
            match json(rest) {
                Json::Whole(value, bytes) if !has_value => match self.calls(&value, marker.is_sure) {
                    Some(found) => {
                        calls.extend(found);
                        at = begin + bytes;
                        continue;
                    }
                    None => return decided(calls, begin + bytes),
                },
                Json::Partial if !has_value && !is_end => return Found::Undecided,
                _ => {}
            }
            let fillers = if has_value { &[][..] } else { &FILLERS[..] };
            // Nothing, or the beginning of something that is awaited.
            let is_short = |text: &str| text.len() > rest.len() && text.starts_with(rest);
            if !is_end && fillers.iter().copied().chain(end).any(is_short) {
                return Found::Undecided;
            }
            if let Some(filler) = fillers.iter().find(|filler| rest.starts_with(**filler)) {
                is_block |= filler.starts_with(FENCE);
                at = begin + filler.len();
                continue;
            }
            return decided(calls, at);
        }
    }

    /// The call that is a whole answer, without a marker.
    fn unmarked(&self, text: &str, blanks: usize, is_end: bool) -> Found {
        match json(text) {
            Json::Whole(value, bytes) => match self.calls(&value, false) {
                Some(calls) => Found::Calls(calls, blanks + bytes),
                None => Found::Text(blanks + bytes),
            },
            Json::Partial if !is_end => Found::Undecided,
            Json::Partial | Json::None => Found::Text(blanks + 1),
        }
    }

    /// The calls of a value, if it is one or a list of them.
    fn calls(&self, value: &Value, is_sure: bool) -> Option<Vec<ToolCall>> {
        let of = |value: &Value| {
            let call = ToolCall::of(value)?;
            let is_known = ToolCall::is_complete(value) && self.names.contains(&call.name);
            Some(call).filter(|_| is_sure || is_known)
        };
        match value {
            Value::Array(items) if !items.is_empty() => items.iter().map(of).collect(),
            Value::Object(_) => Some(vec![of(value)?]),
            _ => None,
        }
    }
}

fn decided(calls: Vec<ToolCall>, bytes: usize) -> Found {
    if calls.is_empty() { Found::Text(bytes) } else { Found::Calls(calls, bytes) }
}

/// The first line of a block of code.
enum Info {
    /// JSON begins after that many bytes.
    Json(usize),
    Other,
    Undecided,
}

fn info(after: &str, is_end: bool) -> Info {
    const KINDS: [&str; 4] = ["", "json", "tool_call", "tool_calls"];
    match after.split_once('\n') {
        Some((kind, rest)) if KINDS.contains(&kind.trim()) => match rest.trim_start().chars().next() {
            Some('{' | '[') => Info::Json(kind.len() + 1),
            None if !is_end => Info::Undecided,
            _ => Info::Other,
        },
        None if !is_end && KINDS.iter().any(|kind| kind.starts_with(after.trim())) => Info::Undecided,
        _ => Info::Other,
    }
}

/// Length of the text that no marker can begin in: the rest are blanks before one, and the beginning of one.
fn certain(text: &str) -> usize {
    let partial = |marker: &Marker| (1..marker.begin.len()).rev().find(|len| text.ends_with(&marker.begin[..*len]));
    let longest = MARKERS.iter().filter_map(partial).max().unwrap_or(0);
    text[..text.len() - longest].trim_end().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&str]) -> ReadText {
        let mut reader = CallReader::new(vec!["weather".to_owned(), "add".to_owned()]);
        let mut all = ReadText::default();
        let mut add = |read: ReadText| {
            all.text += &read.text;
            all.calls.extend(read.calls);
        };
        pieces.iter().for_each(|piece| add(reader.push(piece)));
        add(reader.finish());
        all
    }

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall { name: name.to_owned(), arguments: arguments.to_owned() }
    }

    #[track_caller]
    fn check(answer: &str, text: &str, calls: &[ToolCall]) {
        assert_eq!(read(&[answer]), ReadText { text: text.to_owned(), calls: calls.to_vec() }, "{answer}");
    }

    #[test]
    fn the_forms_that_models_write_are_read() {
        let jena = || call("weather", r#"{"place":"Jena"}"#);
        let json = r#"{"name": "weather", "arguments": {"place": "Jena"}}"#;
        let forms = [
            format!("<tool_call>\n{json}\n</tool_call>"),
            format!("<tool_call>{json}</tool_call>"),
            format!("<tool_call>\n```json\n{json}\n```\n</tool_call>\n"),
            format!("<tool_call>\n{json}"),
            format!("<tool_calls>\n[{json}]\n</tool_calls>"),
            format!("<tool_calls>\n<tool_call>\n{json}\n</tool_call>\n</tool_calls>"),
            format!("**Tool Call:**\n{json}"),
            format!("**Tool Call:**\n\n```json\n{json}\n```"),
            format!("**Tool Call:** ```\n{json}\n```\n"),
            format!("```json\n{json}\n```"),
            format!("```\n{json}\n```"),
            json.to_owned(),
            format!("[{json}]"),
            r#"<tool_call>{"name": "weather", "parameters": {"place": "Jena"}}</tool_call>"#.to_owned(),
            r#"<tool_call>{"name": "weather", "arguments": "{\"place\": \"Jena\"}"}</tool_call>"#.to_owned(),
            r#"<tool_call>{"function": "weather", "args": {"place": "Jena"}}</tool_call>"#.to_owned(),
            r#"{"type": "function", "function": {"name": "weather", "arguments": {"place": "Jena"}}}"#.to_owned(),
        ];
        for form in forms {
            check(&form, "", &[jena()]);
            let late = format!("Let me see.\n\n{form}");
            match form.starts_with(['{', '[']) {
                true => check(&late, &late, &[]),
                false => check(&late, "Let me see.", &[jena()]),
            }
        }
    }

    #[test]
    fn several_calls_and_the_text_between_them_are_read() {
        let add = |a: i32| format!(r#"{{"name": "add", "arguments": {{"a": {a}}}}}"#);
        let calls = [call("add", r#"{"a":1}"#), call("add", r#"{"a":2}"#)];
        let (one, two) = (add(1), add(2));
        check(&format!("<tool_call>\n{one}\n</tool_call>\n<tool_call>\n{two}\n</tool_call>"), "", &calls);
        check(&format!("<tool_call>{one}\n{two}</tool_call>"), "", &calls);
        check(&format!("<tool_call>[{one}, {two}]</tool_call>"), "", &calls);
        check(&format!("<tool_calls>{one},{two}</tool_calls>"), "", &calls);
        check(&format!("So: \n<tool_call>{one}</tool_call>\n\nand **Tool Call:** {two}\nDone."), "So:andDone.", &calls);
        check("<tool_call>{\"name\": \"none\"}</tool_call>", "", &[call("none", "{}")]);
    }

    #[test]
    fn what_is_no_call_stays_text() {
        for text in [
            "A goose. \n",
            "<tool_call>",
            "<tool_call>weather(Jena)</tool_call> so",
            "<tool_call>{'name': 'weather'}</tool_call>",
            "<tool_call>{\"name\": \"wea",
            "<tool_call>[]</tool_call>",
            "``` <tool",
            "```json\n{\"name\": \"swan\", \"arguments\": {}}\n```\n",
            "```json\n{\"name\": \"weather\"}\n```",
            "```python\nprint({})\n```",
            "{\"name\": \"swan\", \"arguments\": {}} so",
            "[1, 2]",
            "{\"a\": ",
            "**Tool Call:** none",
            "**Tool Call:**",
        ] {
            check(text, text, &[]);
        }
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(
            parts in prop::collection::vec(prop::sample::select(vec![
                "<tool_call>", "</tool_call>", "<tool_calls>", "</tool_calls>", "**Tool Call:**", "```", "```json", "\n", " ",
                "{\"name\": \"add\", \"arguments\": {\"a\": 1}}", "{\"a\": ", "[", "]", "}", ",", "a", "<", "*", "`", "\"",
            ]), 0..14),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let whole = parts.concat();
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(whole.len() + 1)).collect();
            places.extend([0, whole.len()]);
            places.sort_unstable();
            let pieces: Vec<&str> = places.windows(2).map(|place| &whole[place[0]..place[1]]).collect();
            prop_assert_eq!(read(&pieces), read(&[&whole]));
        }
    }
}
