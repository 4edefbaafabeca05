//! A writer that is killed: a real process, a real SIGKILL.

use super::{place, record};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use wgoose_measure::ledger::{Ledger, read};

const LEDGER: &str = "WGOOSE_TEST_LEDGER";
/// Lines of two megabytes: so long that most kills fall inside a write.
const SAMPLES: u32 = 100_000;

/// The child: appends numbered records for ever, saying each number once it is acknowledged.
#[test]
#[ignore = "it is the process that `killed_writers_lose_nothing_acknowledged` starts and kills"]
fn writer() {
    let Some(path) = std::env::var_os(LEDGER) else { return };
    let mut ledger = Ledger::open(path).unwrap();
    let mut stderr = std::io::stderr();
    for n in ledger.records().as_slice().len() as u64.. {
        ledger.append(record(n, SAMPLES)).unwrap();
        // One write: a pipe takes so short a line whole or not at all.
        stderr.write_all(format!("ack {n}\n").as_bytes()).unwrap();
    }
}

fn start_writer(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ledger::kill::writer", "--ignored", "--nocapture"])
        .env(LEDGER, path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The numbers a writer says, as they come.
fn acknowledged(said: ChildStderr) -> Receiver<usize> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(said).lines() {
            if let Some(n) = line.unwrap().strip_prefix("ack ") {
                send.send(n.parse().unwrap()).unwrap();
            }
        }
    });
    receive
}

#[test]
fn killed_writers_lose_nothing_acknowledged() {
    let (_folder, path) = place();
    let mut in_ledger = 0;
    for _ in 0..8 {
        let mut child = start_writer(&path);
        let acks = acknowledged(child.stderr.take().unwrap());
        let first = acks.recv().unwrap();
        // Kill at the first sign of a further line, while its writer is still inside the write or the sync.
        let length = || fs::metadata(&path).unwrap().len();
        let before = length();
        let mut last = first;
        while length() == before && last == first && child.try_wait().unwrap().is_none() {
            last = acks.try_iter().last().unwrap_or(last);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        last = acks.iter().last().unwrap_or(last);

        assert_eq!(first, in_ledger, "a new writer goes on where the last one stopped");
        let found = read(&path).unwrap().0.as_slice().len();
        assert!(found == last + 1 || found == last + 2, "{found} records for {} acknowledged", last + 1);
        in_ledger = found;
    }

    let mut ledger = Ledger::open(&path).unwrap();
    ledger.append(record(in_ledger as u64, SAMPLES)).unwrap();
    drop(ledger);
    let (records, notices) = read(&path).unwrap();
    assert!(notices.is_empty(), "{notices:?}");
    assert_eq!(records.as_slice().len(), in_ledger + 1);
    for (n, entry) in records.as_slice().iter().enumerate() {
        assert_eq!(entry.record, record(n as u64, SAMPLES));
    }
}
