//! Other programs: each command is shown before it runs, and its failure is an error that names it.

use crate::failed_tests::{self, FailedTest};
use crate::vulkan;
use std::ffi::OsStr;
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Why a chore stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A program could not be started.
    #[error("cannot start `{command}`: {source}")]
    Start { command: String, source: io::Error },
    /// A program said no.
    #[error("`{command}` failed ({status})")]
    Failed { command: String, status: ExitStatus },
    /// A test runner said no.
    #[error("`{command}` failed ({status}){}", listed(tests))]
    Tests { command: String, status: ExitStatus, tests: Vec<FailedTest> },
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

/// The tests, each in lines of its own.
fn listed(tests: &[FailedTest]) -> String {
    tests.iter().map(|test| format!("\n{test}")).collect()
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

/// Runs a command and returns what it wrote to standard output.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|source| Error::Start { command: shown(command), source })?;
    succeeded(command, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Shows and runs a test runner; its output goes to the terminal, and an error names the tests that failed.
pub(crate) fn run_tests(command: &mut Command) -> Result<()> {
    echo(command);
    let could_not = |source, command: &Command| Error::Start { command: shown(command), source };
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|source| could_not(source, command))?;
    let output = Mutex::new(String::new());
    thread::scope(|scope| {
        scope.spawn(|| relay(child.stdout.take(), io::stdout(), &output));
        scope.spawn(|| relay(child.stderr.take(), io::stderr(), &output));
    });
    let status = child.wait().map_err(|source| could_not(source, command))?;
    if status.success() {
        return Ok(());
    }
    let output = output.into_inner().unwrap_or_else(PoisonError::into_inner);
    Err(Error::Tests { command: shown(command), status, tests: failed_tests::read(&output) })
}

/// Hands lines on as they come, and keeps them.
fn relay(from: Option<impl Read>, mut to: impl Write, all: &Mutex<String>) {
    let lines = from.into_iter().flat_map(|from| io::BufReader::new(from).split(b'\n').map_while(io::Result::ok));
    for line in lines {
        let line = String::from_utf8_lossy(&line) + "\n";
        all.lock().unwrap_or_else(PoisonError::into_inner).push_str(&line);
        // Tests go on without a terminal to print to.
        let _ = to.write_all(line.as_bytes());
    }
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

    #[cfg(unix)]
    #[test]
    fn a_failed_run_of_tests_names_them() {
        let print = "echo 'FAILED a.py::b - 1 is not 2'; echo more >&2; exit 1";
        let said = run_tests(&mut command("sh", ["-c", print])).unwrap_err().to_string();
        assert!(said.contains("a.py::b\n    1 is not 2\n"), "{said}");
        assert!(run_tests(&mut command("true", [""; 0])).is_ok());
    }

    #[test]
    fn failures_name_the_command() {
        let absent = run(&mut command("no-such-program-here", ["--yes"])).unwrap_err().to_string();
        assert!(absent.starts_with("cannot start `no-such-program-here --yes`"), "{absent}");
        assert_eq!(probe(&mut command("no-such-program-here", [""; 0])), None);
    }
}
