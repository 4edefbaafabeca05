//! Messages of one line or more, typed or from a pipe.

use super::history::LineHistory;
use crate::failure::Failure;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Editor, Helper};
use std::io::{BufRead, IsTerminal};

/// Begins and ends a message of several lines.
const FENCE: &str = "\"\"\"";

/// Where messages come from.
pub(super) enum Input {
    /// A terminal: lines can be edited, and those before come back.
    Typed(Box<Editor<Lines, FileHistory>>, LineHistory),
    /// Anything else.
    Piped,
}

impl Input {
    /// That of this process, with the lines kept on a terminal.
    pub(super) fn new(mut kept: LineHistory) -> Result<Self, Failure> {
        if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
            return Ok(Input::Piped);
        }
        let mut editor = kept.editor()?;
        editor.set_helper(Some(Lines));
        Ok(Input::Typed(Box::new(editor), kept))
    }

    /// Whether somebody types.
    pub(super) fn is_typed(&self) -> bool {
        matches!(self, Input::Typed(..))
    }

    /// The next message or command, asked for with these words on a terminal; `None` at the end.
    pub(super) fn next(&mut self, ask: &str) -> Result<Option<String>, Failure> {
        match self {
            Input::Typed(editor, kept) => loop {
                match editor.readline(ask) {
                    Ok(text) => {
                        kept.keep(editor.history_mut());
                        return Ok(Some(message(&text)));
                    }
                    Err(ReadlineError::Eof) => return Ok(None),
                    Err(ReadlineError::Interrupted) => eprintln!("(Ctrl-D or /quit leaves)"),
                    Err(error) => return Err(error.into()),
                }
            },
            Input::Piped => piped(),
        }
    }
}

fn piped() -> Result<Option<String>, Failure> {
    let mut text = String::new();
    loop {
        let mut bytes = Vec::new();
        if std::io::stdin().lock().read_until(b'\n', &mut bytes)? == 0 {
            return Ok((!text.is_empty()).then(|| message(&text)));
        }
        match std::str::from_utf8(&bytes) {
            Ok(line) => text.push_str(line),
            Err(_) => eprintln!("wgoose: this line is no UTF-8 and was left out"),
        }
        if !text.is_empty() && !is_incomplete(text.trim_end_matches(['\n', '\r'])) {
            return Ok(Some(message(&text)));
        }
    }
}

/// Whether more lines belong to it: a fence is open, or it ends with a backslash.
fn is_incomplete(text: &str) -> bool {
    match text.trim_start().strip_prefix(FENCE) {
        Some(fenced) => !fenced.trim_end().ends_with(FENCE),
        None => text.ends_with('\\'),
    }
}

/// Without fences, and without the backslashes that join lines.
fn message(text: &str) -> String {
    match text.trim().strip_prefix(FENCE) {
        Some(fenced) => fenced.strip_suffix(FENCE).unwrap_or(fenced).trim_matches(['\n', '\r']).to_owned(),
        None => text.replace("\\\r\n", "\n").replace("\\\n", "\n"),
    }
}

/// How lines are edited: Enter ends a message only when it is complete.
pub(super) struct Lines;

impl Validator for Lines {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if is_incomplete(context.input()) { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Completer for Lines {
    type Candidate = String;
}

impl Hinter for Lines {
    type Hint = String;
}

impl Highlighter for Lines {}

impl Helper for Lines {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_several_lines() {
        assert!(!is_incomplete("hi") && is_incomplete("hi\\") && !is_incomplete("hi\\\nthere"));
        assert!(is_incomplete("\"\"\"") && is_incomplete("\"\"\"one\ntwo") && !is_incomplete("\"\"\"one\ntwo\"\"\""));
        assert_eq!(message("one\\\ntwo\n"), "one\ntwo\n");
        assert_eq!(message(" \"\"\"\none\ntwo\n\"\"\"\n"), "one\ntwo");
    }
}
