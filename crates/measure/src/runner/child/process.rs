//! A child process with pipes: lines go in, lines come out, and what it says on stderr is kept.

use super::wire::{Reply, Request};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use wgoose_runtime::CancelToken;

/// Lines of stderr that are kept.
const LINES_KEPT: usize = 200;

/// Time between two looks at the cancel token.
const LOOK: Duration = Duration::from_millis(50);

/// Time between two looks at a process that is about to end.
const POLL: Duration = Duration::from_millis(2);

/// A process that runs trials.
pub(super) struct Process {
    child: Child,
    requests: ChildStdin,
    replies: Receiver<Reply>,
    said: Arc<Mutex<Vec<String>>>,
    readers: Vec<JoinHandle<()>>,
}

/// What comes of waiting for a reply.
pub(super) enum Received {
    /// It came.
    Reply(Reply),
    /// It did not come in time.
    Late,
    /// The process has closed its stdout: it is about to end, or has ended.
    Closed,
    /// The user wants no more.
    Interrupted,
}

impl Process {
    /// Starts a command.
    ///
    /// # Errors
    /// The system cannot start it.
    pub(super) fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let gone = || io::Error::other("a pipe of a fresh process is gone");
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(requests), Some(stdout), Some(stderr)) = pipes else { return Err(gone()) };
        let said = Arc::new(Mutex::new(Vec::new()));
        let (send, replies) = mpsc::channel();
        let aside = Arc::clone(&said);
        let lines = thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                match serde_json::from_slice(&line) {
                    Ok(reply) => drop(send.send(reply)),
                    // A driver may print.
                    Err(_) => keep(&aside, &line),
                }
            }
        });
        let aside = Arc::clone(&said);
        let errors = thread::spawn(move || {
            BufReader::new(stderr).split(b'\n').map_while(Result::ok).for_each(|line| keep(&aside, &line));
        });
        Ok(Process { child, requests, replies, said, readers: vec![lines, errors] })
    }

    /// Sends a request. What a process that has ended cannot read is noticed when its reply does not come.
    pub(super) fn send(&mut self, request: &Request) -> Result<(), serde_json::Error> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        let _ = self.requests.write_all(&line).and_then(|()| self.requests.flush());
        Ok(())
    }

    /// Waits for a reply until a moment.
    pub(super) fn receive(&self, until: Instant, cancel: &CancelToken) -> Received {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.replies.recv_timeout(left.min(LOOK)) {
                Ok(reply) => return Received::Reply(reply),
                Err(_) if cancel.is_cancelled() => return Received::Interrupted,
                Err(RecvTimeoutError::Disconnected) => return Received::Closed,
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Received::Late,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Lets it end by itself until a moment, unless the user wants no more.
    pub(super) fn finish(mut self, until: Instant, cancel: &CancelToken) {
        let goes_on = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_none());
        while goes_on(&mut self.child) && Instant::now() < until && !cancel.is_cancelled() {
            thread::sleep(POLL);
        }
    }

    /// Ends it, whatever it does: how it ended, by itself if it had, and what it said last.
    pub(super) fn end(mut self) -> (Option<ExitStatus>, Vec<String>) {
        let status = self.kill();
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        let said = std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner));
        (status, said)
    }

    fn kill(&mut self) -> Option<ExitStatus> {
        // One that has ended by itself keeps its status.
        let _ = self.child.kill();
        self.child.wait().ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Keeps a line among the last ones.
fn keep(said: &Mutex<Vec<String>>, line: &[u8]) {
    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
    if said.len() == LINES_KEPT {
        said.remove(0);
    }
    said.push(String::from_utf8_lossy(line).trim_end().to_owned());
}
