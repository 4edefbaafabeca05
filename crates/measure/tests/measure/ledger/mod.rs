//! The promises of a ledger: one writer, nothing acknowledged is lost, nothing damaged is believed.

mod damage;
mod kill;

use std::path::{Path, PathBuf};
use wgoose_graph::Format;
use wgoose_kernels::DeviceFingerprint;
use wgoose_kernels::plan::TuningKey;
use wgoose_measure::job::{Configured, Job, SiteId};
use wgoose_measure::ledger::{Clock, Identity, Ledger, LedgerError, LineError, Outcome, Record, Timing, Trial, read};

/// An identity that differs with `n` by its kernel alone.
fn identity(n: u64) -> Identity {
    let key = TuningKey { op: "matmul".to_owned(), k: 3072, m: 768, formats: vec![Format::Q4_0], up_to_rows: 1 };
    let kernel = Configured {
        variant: "gemv_subgroup".to_owned(),
        config: [("WG", "64"), ("ROWS", "4")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        text: format!("{n:032x}"),
    };
    Identity {
        tried: Job::Kernel { site: SiteId { key, rows: 1, segments: 1 }, kernel },
        device: DeviceFingerprint {
            adapter: "Imaginary 9000".to_owned(),
            vendor: 0x10de,
            device: 0x2335,
            driver: "570.1".to_owned(),
            backend: "vulkan".to_owned(),
            wgpu: "30.0.1".to_owned(),
        },
        model: None,
        clock: Clock::Timestamps,
    }
}

/// The record of the `n`-th trial.
fn trial(n: u64, outcome: Outcome) -> Record {
    Record::Trial(Box::new(Trial { at: 1.7e9 + n as f64, session: None, identity: identity(n), cost: None, outcome }))
}

/// The `n`-th record, with `samples` samples.
fn record(n: u64, samples: u32) -> Record {
    let samples_ns = (0..samples).map(|i| 1e6 / f64::from(i + 3)).collect();
    trial(n, Outcome::Kernel(Timing { samples_ns, repeats: 16, copies: 4, gate: None }))
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs/today/ledger.jsonl");
    (folder, path)
}

fn records(path: &Path) -> Vec<Record> {
    read(path).unwrap().0.as_slice().iter().map(|entry| entry.record.clone()).collect()
}

#[test]
fn appended_records_are_found_again_after_reopening() {
    let (_folder, path) = place();
    let mut ledger = Ledger::open(&path).unwrap();
    let id = ledger.append(record(1, 4)).unwrap().id.clone();
    ledger.append(record(2, 4)).unwrap();
    ledger.append(record(1, 2)).unwrap();
    drop(ledger);

    let ledger = Ledger::open(&path).unwrap();
    assert!(ledger.notices().is_empty());
    let found: Vec<_> = ledger.find(&identity(1).key()).collect();
    assert_eq!(found.len(), 2);
    assert_eq!(Record::Trial(Box::new(found[0].clone())), record(1, 4));
    assert_eq!(ledger.records().as_slice()[0].id, id);
    assert_eq!(ledger.find("no such key").count(), 0);
}

#[test]
fn an_intent_without_an_outcome_was_interrupted() {
    let (_folder, path) = place();
    let mut ledger = Ledger::open(&path).unwrap();
    for n in [1, 2] {
        ledger.append(trial(n, Outcome::Intent)).unwrap();
    }
    ledger.append(record(1, 4)).unwrap();
    let interrupted: Vec<_> = ledger.records().interrupted().map(|trial| trial.identity.key()).collect();
    assert_eq!(interrupted, [identity(2).key()]);
}

#[test]
fn two_writers_conflict_and_a_reader_does_not() {
    let (_folder, path) = place();
    let mut first = Ledger::open(&path).unwrap();
    let refused = Ledger::open(&path).unwrap_err();
    assert!(matches!(&refused, LedgerError::Locked { path: p } if *p == path), "{refused}");
    first.append(record(1, 4)).unwrap();
    if cfg!(unix) {
        assert_eq!(records(&path), [record(1, 4)]);
    }
    drop(first);
    assert_eq!(Ledger::open(&path).unwrap().records().as_slice().len(), 1);
}

#[test]
fn a_trial_without_finite_samples_is_not_written() {
    let (_folder, path) = place();
    let mut ledger = Ledger::open(&path).unwrap();
    let samples_ns = vec![1.0, f64::NAN];
    let broken = trial(1, Outcome::Control(Timing { samples_ns, repeats: 1, copies: 1, gate: None }));
    let error = ledger.append(broken).unwrap_err();
    assert!(matches!(error, LedgerError::Record(LineError::NotFinite { field: "samples_ns", .. })), "{error}");
    ledger.append(record(2, 1)).unwrap();
    drop(ledger);
    assert_eq!(records(&path), [record(2, 1)]);
}
