//! The server's process, and what it takes of the machine.

use crate::shell::{Error, Result};
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time for connections to be closed: the server's patience, and some more.
const CLOSING: Duration = Duration::from_secs(60);

/// A server, for as long as this lives.
pub(super) struct Served {
    child: Child,
    pub(super) address: String,
}

/// Memory and descriptors of a moment.
pub(super) struct Look {
    /// Resident memory, in bytes.
    resident: u64,
    descriptors: usize,
}

/// The memory over a run.
#[derive(Default)]
pub(super) struct Memory {
    /// Largest resident memory in the second third and in the last one, in bytes.
    middle: u64,
    last: u64,
    descriptors: usize,
}

impl Served {
    pub(super) fn begin(mut serve: Command) -> Result<Self> {
        let spawned = serve.stderr(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|e| Error::Other(format!("wgoose serve does not start: {e}")))?;
        let silent = || Error::Other("wgoose serve ended before it listened".to_owned());
        let mut lines = BufReader::new(child.stderr.take().ok_or_else(silent)?).lines();
        let address = lines
            .by_ref()
            .map_while(std::result::Result::ok)
            .find_map(|line| Some(line.strip_prefix("listening at http://")?.split_once("/v1")?.0.to_owned()));
        // The server waits if nobody reads what it prints.
        thread::spawn(move || lines.map_while(std::result::Result::ok).for_each(|line| println!("server: {line}")));
        Ok(Served { child, address: address.ok_or_else(silent)? })
    }

    /// What it takes now.
    ///
    /// # Errors
    /// It has ended.
    pub(super) fn look(&mut self) -> Result<Look> {
        let tried = self.child.try_wait();
        if let Some(status) = tried.map_err(|e| Error::Other(format!("the server cannot be watched: {e}")))? {
            return Err(Error::Other(format!("the server has ended: {status}")));
        }
        let folder = format!("/proc/{}", self.child.id());
        let status = fs::read_to_string(format!("{folder}/status")).unwrap_or_default();
        let kilobytes =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().split(' ').next()?.parse().ok());
        let descriptors = fs::read_dir(format!("{folder}/fd")).map_or(0, Iterator::count);
        Ok(Look { resident: kilobytes.unwrap_or(0) * 1024, descriptors })
    }

    /// What it takes once all clients have gone.
    ///
    /// # Errors
    /// It has ended, or keeps connections of clients that have gone.
    pub(super) fn look_when_closed(&mut self, before: &Look) -> Result<Look> {
        let begun = Instant::now();
        loop {
            let look = self.look()?;
            if look.descriptors <= before.descriptors {
                return Ok(look);
            }
            if begun.elapsed() > CLOSING {
                return Err(Error::Other(format!("connections stay open: {look}; before the load {before}")));
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends it as a terminal does.
    ///
    /// # Errors
    /// It does not end well.
    pub(super) fn end(mut self) -> Result<()> {
        let id = self.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &id]).status();
        let ended = told.and_then(|_| self.child.wait()).map_err(|e| Error::Other(format!("no end: {e}")))?;
        match ended.success() {
            true => Ok(()),
            false => Err(Error::Other(format!("the server ended with {ended}"))),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // An error: it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Memory {
    /// Adds a look at that part of the run.
    pub(super) fn add(&mut self, part: f64, look: &Look) {
        self.descriptors = self.descriptors.max(look.descriptors);
        if part > 2.0 / 3.0 {
            self.last = self.last.max(look.resident);
        } else if part > 1.0 / 3.0 {
            self.middle = self.middle.max(look.resident);
        }
    }

    pub(super) fn growth(&self) -> u64 {
        self.last.saturating_sub(self.middle)
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "resident {:.1} MB, {} descriptors", megabytes(self.resident), self.descriptors)
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (middle, last, descriptors) = (megabytes(self.middle), megabytes(self.last), self.descriptors);
        write!(f, "at most {middle:.1} MB in the second third, {last:.1} MB in the last; {descriptors} descriptors")
    }
}
