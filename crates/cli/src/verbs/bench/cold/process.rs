//! A fresh process, watched until it has said its line.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use wgoose_bench::process_memory;

/// Time between two looks at the memory of the process.
const LOOK: Duration = Duration::from_millis(2);

/// What was seen of a process.
pub(super) struct Watched {
    /// The first line it printed.
    pub(super) line: String,
    /// From just before it was started until that line had arrived.
    pub(super) wall: Duration,
    /// Largest anonymous and resident memory until then, bytes; `None` where the system does not say.
    pub(super) peak_anonymous: Option<u64>,
    pub(super) peak_resident: Option<u64>,
    /// What it wrote to stderr.
    pub(super) warnings: String,
}

/// Runs a process to its end.
///
/// # Errors
/// It cannot be started, prints nothing, or fails: then the last line that it wrote to stderr.
pub(super) fn watch(command: &mut Command) -> Result<Watched, String> {
    let started = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|e| format!("{}: cannot be started: {e}", command.get_program().display()))?;
    let (Some(stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("the pipes of a fresh process are gone".into());
    };
    let (process, said) = (child.id(), AtomicBool::new(false));
    let (line, wall, warnings, (peak_anonymous, peak_resident)) = thread::scope(|scope| {
        let peaks = scope.spawn(|| peaks(process, &said));
        let warnings = scope.spawn(move || {
            let mut bytes = Vec::new();
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let (mut stdout, mut line) = (BufReader::new(stdout), String::new());
        // What cannot be read or is not text has no JSON either: the parent says so.
        let _ = stdout.read_line(&mut line);
        let wall = started.elapsed();
        said.store(true, Ordering::Relaxed);
        let _ = std::io::copy(&mut stdout, &mut std::io::sink());
        (line, wall, warnings.join().unwrap_or_default(), peaks.join().unwrap_or_default())
    });
    let status = child.wait().map_err(|e| format!("waiting for a fresh process: {e}"))?;
    if !status.success() || line.is_empty() {
        let last = warnings.lines().rfind(|l| !l.trim().is_empty());
        let last = last.map(|l| l.strip_prefix("wgoose: ").unwrap_or(l));
        return Err(match (status.code(), last) {
            (Some(_), Some(last)) => last.to_owned(),
            (_, last) => format!("a fresh process ended with {status}: {}", last.unwrap_or("it said nothing")),
        });
    }
    Ok(Watched { line, wall, peak_anonymous, peak_resident, warnings })
}

/// Looks at a process until it has said its line, and once more.
fn peaks(process: u32, said: &AtomicBool) -> (Option<u64>, Option<u64>) {
    let (mut anonymous, mut resident) = (None, None);
    loop {
        let last = said.load(Ordering::Relaxed);
        if let Some(now) = process_memory::of(process) {
            anonymous = anonymous.max(Some(now.anonymous));
            resident = resident.max(Some(now.peak_resident));
        }
        if last {
            return (anonymous, resident);
        }
        thread::sleep(LOOK);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Watched, String> {
        watch(Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn the_first_line_stops_the_clock() {
        let seen = shell("echo '{}'; echo careful >&2; sleep 1; echo more").unwrap();
        assert_eq!((seen.line.as_str(), seen.warnings.as_str()), ("{}\n", "careful\n"));
        assert!(seen.peak_anonymous.is_some() == cfg!(target_os = "linux"));
    }

    #[test]
    fn failures_are_one_line() {
        let error = |script: &str| shell(script).err().unwrap();
        assert_eq!(error("echo warned >&2; echo 'wgoose: no goose' >&2; echo >&2; exit 1"), "no goose");
        assert!(error("exit 3").contains("said nothing"));
        assert!(error("true").contains("said nothing"));
        assert!(error("echo half; kill -9 $$").contains("signal"));
        assert!(watch(&mut Command::new("/nowhere/goose")).err().unwrap().contains("/nowhere/goose"));
    }
}
