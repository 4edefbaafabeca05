//! Other programs: each command is shown before it runs, and its failure is an error that names it.

use crate::vulkan;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Why a chore stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A program could not be started.
    #[error("cannot start `{command}`: {source}")]
    Start { command: String, source: io::Error },
    /// A program said no.
    #[error("`{command}` failed ({status})")]
    Failed { command: String, status: ExitStatus },
    /// A file or folder could not be handled.
    #[error("cannot {action} {}: {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    /// Anything else, said in full.
    #[error("{0}")]
    Other(String),
}

impl Error {
    /// Names what was attempted on a path.
    pub(crate) fn file(action: &'static str, path: &Path, source: io::Error) -> Self {
        Error::File { action, path: path.to_owned(), source }
    }
}

/// The result of a chore.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// A command with its arguments.
pub(crate) fn command<S: AsRef<OsStr>>(program: impl AsRef<OsStr>, args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(program);
    command.args(args).envs(vulkan::variables());
    // Mesa's device layer complains on stderr where nobody is logged in.
    if cfg!(target_os = "linux") && std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        command.env("XDG_RUNTIME_DIR", std::env::temp_dir());
    }
    command
}

/// `cargo` with these words, separated by spaces.
pub(crate) fn cargo(words: &str) -> Command {
    command("cargo", words.split(' '))
}

/// Shows and runs a command; its output goes to the terminal.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    echo(command);
    let status = command.status().map_err(|source| Error::Start { command: shown(command), source })?;
    succeeded(command, status)
}

/// Shows and runs a command and returns what it wrote to standard output.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    echo(command);
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|source| Error::Start { command: shown(command), source })?;
    succeeded(command, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Asks a command silently: its standard output, or nothing when it is absent or fails.
pub(crate) fn probe(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn succeeded(command: &Command, status: ExitStatus) -> Result<()> {
    if status.success() { Ok(()) } else { Err(Error::Failed { command: shown(command), status }) }
}

fn echo(command: &Command) {
    println!("$ {}", shown(command));
}

/// The command as one would type it, words quoted where needed.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(|word| {
        let word = word.to_string_lossy();
        if word.is_empty() || word.contains([' ', '"', '*', '$']) { format!("'{word}'") } else { word.into_owned() }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_typed() {
        assert_eq!(shown(&command("cargo", ["test", "a b", ""])), "cargo test 'a b' ''");
    }

    #[test]
    fn failures_name_the_command() {
        let absent = run(&mut command("no-such-program-here", ["--yes"])).unwrap_err().to_string();
        assert!(absent.starts_with("cannot start `no-such-program-here --yes`"), "{absent}");
        assert_eq!(probe(&mut command("no-such-program-here", [""; 0])), None);
    }
}
