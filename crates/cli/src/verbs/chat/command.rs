//! Lines that are commands, not messages.

use std::path::PathBuf;

/// The commands, for people.
pub(super) const COMMANDS: &str = "/reset, /save FILE, /load FILE, /quit";

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Forget all that was said.
    Reset,
    /// Write the conversation to a file.
    Save(PathBuf),
    /// Go on with the conversation of a file.
    Load(PathBuf),
    /// Leave.
    Quit,
}

impl Command {
    /// The command of a line; `None` for a message.
    ///
    /// # Errors
    /// A line that begins like a command and is none.
    pub(super) fn parse(line: &str) -> Result<Option<Command>, String> {
        let line = line.trim();
        if !line.starts_with('/') {
            return Ok(None);
        }
        let (name, file) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let file = file.trim();
        match (name, file.is_empty()) {
            ("/reset", true) => Ok(Some(Command::Reset)),
            ("/quit", true) => Ok(Some(Command::Quit)),
            ("/save", false) => Ok(Some(Command::Save(file.into()))),
            ("/load", false) => Ok(Some(Command::Load(file.into()))),
            _ => Err(format!("'{line}' is no command: there are {COMMANDS}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_or_messages() {
        assert_eq!(Command::parse("what is 1/2?"), Ok(None));
        assert_eq!(Command::parse(" /reset \n"), Ok(Some(Command::Reset)));
        assert_eq!(Command::parse("/save my chat.st"), Ok(Some(Command::Save("my chat.st".into()))));
        for wrong in ["/save", "/quit now", "/help", "/"] {
            assert!(Command::parse(wrong).unwrap_err().contains("/load FILE"));
        }
    }
}
