//! Lines that are commands, not messages.

use std::path::PathBuf;

/// The commands, for people.
pub(super) const HELP: &str = "\
/regen         answer the last message anew
/undo          take back the last message and its answer
/system TEXT   begin anew, and tell the model this first; without TEXT nothing
/reset         forget all that was said
/save FILE     write the conversation to a file
/load FILE     go on with that of a file
/quit          leave, as Ctrl-D does
A line that ends with a backslash goes on in the next one.
Lines between \"\"\" and \"\"\" are one message. Ctrl-C ends an answer.";

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Say what there is.
    Help,
    /// Answer the last message anew.
    Again,
    /// Take the last message back.
    Undo,
    /// Begin anew, with this first.
    System(Option<String>),
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
