//! Commands of a chat: lines that begin with a slash.

use std::path::PathBuf;

/// The commands, for people.
pub(super) const HELP: &str = "\
/regen         answer the last message again
/undo          remove the last message and its answer
/system TEXT   begin a new conversation with this system prompt; without TEXT, with none
/reset         begin a new conversation
/save FILE     write the conversation to a file: its state and its text
/load FILE     continue the conversation of a file, or from a state alone
/quit          leave, as Ctrl-D does
A backslash at the end of a line continues the message on the next line.
Lines between \"\"\" and \"\"\" are one message. Ctrl-C ends an answer.";

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// List the commands.
    Help,
    /// Answer the last message again.
    Again,
    /// Remove the last message.
    Undo,
    /// Begin a conversation with this system prompt.
    System(Option<String>),
    /// Begin a conversation.
    Reset,
    /// Write the conversation to a file.
    Save(PathBuf),
    /// Continue the conversation of a file.
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
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match (name, rest.is_empty()) {
            ("/help" | "/?", true) => Ok(Some(Command::Help)),
            ("/regen", true) => Ok(Some(Command::Again)),
            ("/undo", true) => Ok(Some(Command::Undo)),
            ("/system", is_none) => Ok(Some(Command::System((!is_none).then(|| rest.to_owned())))),
            ("/reset", true) => Ok(Some(Command::Reset)),
            ("/quit" | "/exit", true) => Ok(Some(Command::Quit)),
            ("/save", false) => Ok(Some(Command::Save(rest.into()))),
            ("/load", false) => Ok(Some(Command::Load(rest.into()))),
            ("/save" | "/load", true) => Err(format!("{name} needs the name of a file")),
            _ => Err(format!("'{line}' is not a command: /help lists them")),
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
        assert_eq!(Command::parse("/system Be brief."), Ok(Some(Command::System(Some("Be brief.".into())))));
        assert_eq!(Command::parse("/system"), Ok(Some(Command::System(None))));
        for (wrong, says) in [("/save", "needs the name"), ("/quit now", "/help"), ("/", "/help")] {
            assert!(Command::parse(wrong).unwrap_err().contains(says));
        }
    }
}
