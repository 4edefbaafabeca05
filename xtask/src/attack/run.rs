//! One run of the tool on a damaged input: with little time and memory, and judged by how it ends and what it says.

use crate::shell::{Error, Result, command};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Most address space, in KiB: a software adapter takes some.
const MEMORY: u64 = 8 << 20;

/// Longest line that is shown to people, in bytes.
const LINE: usize = 4096;

/// Where the tool runs.
pub(super) struct Place {
    /// The tool.
    pub(super) tool: PathBuf,
    /// The folder of valid inputs, in which it is started.
    pub(super) valid: PathBuf,
    /// A folder for what it writes.
    pub(super) scratch: PathBuf,
    /// Longest time of a run.
    pub(super) limit: Duration,
}

/// What is wrong with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It ended by a signal or a panic, or with a code that no command has.
    Crash,
    /// It did not end.
    Hang,
    /// It said what no terminal should be given.
    Message,
    /// It succeeded with a wrong result.
    Wrong,
}

/// How a run ended.
pub(super) struct Ran {
    /// Whether the input was taken as valid.
    pub(super) accepted: bool,
    /// What is wrong.
    pub(super) fault: Option<Fault>,
}

impl Place {
    /// Runs a command line of the tool.
    ///
    /// # Errors
    /// The tool cannot be started.
    pub(super) fn run(&self, line: &str, says: &str) -> Result<Ran> {
        let (status, said) = self.ended(line, says)?;
        let Some(status) = status else { return Ok(Ran { accepted: false, fault: Some(Fault::Hang) }) };
        let [stdout, stderr] = said;
        let is_panic = String::from_utf8_lossy(&stderr).contains("panicked at");
        // What a chat says is the model's.
        let is_bad = is_bad(&stderr) || (says.is_empty() && is_bad(&stdout));
        let fault = match status.code() {
            Some(0 | 1 | 2 | 130) if is_panic => Some(Fault::Crash),
            Some(0 | 1 | 2 | 130) => is_bad.then_some(Fault::Message),
            _ => Some(Fault::Crash),
        };
        Ok(Ran { accepted: status.success(), fault })
    }

    /// The command line as one types it.
    pub(super) fn shown(&self, line: &str) -> String {
        format!("ulimit -v {MEMORY}; exec '{}' {line}", self.tool.display())
    }

    fn ended(&self, line: &str, says: &str) -> Result<(Option<ExitStatus>, [Vec<u8>; 2])> {
        let file = |name: &str| self.scratch.join(name);
        let create = |path: &Path| File::create(path).map_err(|e| Error::file("create", path, e));
        fs::write(file("stdin"), says).map_err(|e| Error::file("write", &file("stdin"), e))?;
        let stdin = File::open(file("stdin")).map_err(|e| Error::file("open", &file("stdin"), e))?;
        let mut shell = command("sh", ["-c", &self.shown(line)]);
        shell.current_dir(&self.valid).env("WGOOSE_DATA_DIR", file("data")).env("WGOOSE_CACHE_DIR", file("kept"));
        shell.env_remove("RUST_LOG").env_remove("RUST_BACKTRACE");
        shell.stdin(stdin).stdout(create(&file("stdout"))?).stderr(create(&file("stderr"))?);
        let mut child = shell.spawn().map_err(|source| Error::Start { command: line.to_owned(), source })?;
        let begun = Instant::now();
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if begun.elapsed() < self.limit => std::thread::sleep(Duration::from_millis(3)),
                _ => {
                    // It may have ended by now.
                    let _ = (child.kill(), child.wait());
                    break None;
                }
            }
        };
        let read = |name: &str| fs::read(file(name)).map_err(|e| Error::file("read", &file(name), e));
        Ok((status, [read("stdout")?, read("stderr")?]))
    }
}

/// Whether a text has control bytes, or a line that fills the screen.
fn is_bad(text: &[u8]) -> bool {
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    String::from_utf8_lossy(text).lines().any(|line| line.len() > LINE || line.contains(is_control))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (valid, scratch) = (folder.path().to_owned(), folder.path().to_owned());
        let place = Place { tool: "sh".into(), valid, scratch, limit: Duration::from_secs(2) };
        let run = |script: &str| {
            let ran = place.run(&format!("-c '{script}'"), "").unwrap();
            (ran.accepted, ran.fault)
        };
        assert_eq!(run("echo right"), (true, None));
        assert_eq!(run("echo no >&2; exit 1"), (false, None));
        assert_eq!(run("exit 101"), (false, Some(Fault::Crash)));
        assert_eq!(run("kill -SEGV $$"), (false, Some(Fault::Crash)));
        assert_eq!(run("echo thread x panicked at y >&2; exit 1"), (false, Some(Fault::Crash)));
        assert_eq!(run("exec sleep 60"), (false, Some(Fault::Hang)));
        assert_eq!(run("printf \"\\\\033[7m\""), (true, Some(Fault::Message)));
        assert_eq!(run("head -c 5000 /dev/zero | tr \"\\\\0\" a"), (true, Some(Fault::Message)));
    }
}
