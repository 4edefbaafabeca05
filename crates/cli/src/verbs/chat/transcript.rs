//! The last turns of a conversation that was loaded, for people.

use std::fmt;
use std::path::Path;
use wgoose_session::{ChatTurn, printable};

/// Turns that are shown.
const SHOWN: usize = 3;

/// A conversation, or a state, that was loaded from a file.
pub(super) struct Transcript<'a> {
    pub(super) file: &'a Path,
    pub(super) turns: &'a [ChatTurn],
}

impl fmt::Display for Transcript<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transcript { file, turns } = self;
        let file = printable(&file.display().to_string());
        match turns.len() {
            0 => return write!(f, "loaded a state from {file}; the file has no text to show"),
            1 => write!(f, "loaded a conversation of 1 turn from {file}")?,
            n => write!(f, "loaded a conversation of {n} turns from {file}")?,
        }
        let left_out = turns.len().saturating_sub(SHOWN);
        if left_out > 0 {
            write!(f, "; the last {SHOWN}:")?;
        }
        for turn in &turns[left_out..] {
            write!(f, "\n\nUser: {}\n\nAssistant: {}", lines(&turn.message), lines(&turn.answer))?;
        }
        Ok(())
    }
}

/// A text whose lines a terminal shows as they are.
fn lines(text: &str) -> String {
    text.trim().lines().map(printable).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(turns: &[ChatTurn]) -> String {
        Transcript { file: Path::new("chat.st"), turns }.to_string()
    }

    #[test]
    fn the_last_turns_are_shown_and_a_state_alone_is_named() {
        let turn = |i: usize| ChatTurn { message: format!("question {i}\n"), answer: format!("answer\n\n\x1b{i}") };
        let turns: Vec<ChatTurn> = (1..=4).map(turn).collect();
        assert_eq!(
            shown(&turns[..1]),
            "loaded a conversation of 1 turn from chat.st\n\nUser: question 1\n\nAssistant: answer\n\n\\u{1b}1"
        );
        let all = shown(&turns);
        assert!(
            all.starts_with("loaded a conversation of 4 turns from chat.st; the last 3:\n\nUser: question 2"),
            "{all}"
        );
        assert!(all.ends_with("User: question 4\n\nAssistant: answer\n\n\\u{1b}4"), "{all}");
        assert_eq!(shown(&[]), "loaded a state from chat.st; the file has no text to show");
    }
}
