//! Files that were cut, edited, or never were ledgers.

use super::{place, record};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use wgoose_measure::ledger::{Ledger, LedgerError, LineError, Notice, read};

const RECORDS: usize = 5;

/// The bytes of a ledger of [`RECORDS`] records, and where each line ends.
static SOUND: LazyLock<(Vec<u8>, Vec<usize>)> = LazyLock::new(|| {
    let (_folder, path) = place();
    let mut ledger = Ledger::open(&path).unwrap();
    let ends = (0..RECORDS).map(|n| {
        ledger.append(record(n as u64, 3 + n as u32)).unwrap();
        fs::metadata(&path).unwrap().len() as usize
    });
    let ends = ends.collect();
    (fs::read(&path).unwrap(), ends)
});

fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_cut_anywhere_loses_the_last_record_at_most(pick: prop::sample::Index) {
        let (bytes, ends) = &*SOUND;
        let cut = pick.index(bytes.len() + 1);
        let (_folder, path) = place();
        put(&path, &bytes[..cut]);

        let mut ledger = Ledger::open(&path).unwrap();
        // A record that lacks only its line's end is whole.
        let kept = ends.iter().filter(|&&end| end <= cut + 1).count();
        let read_back: Vec<_> = ledger.records().as_slice().iter().map(|entry| entry.record.clone()).collect();
        let expected: Vec<_> = (0..kept).map(|n| record(n as u64, 3 + n as u32)).collect();
        prop_assert_eq!(read_back, expected);

        let torn = &bytes[if kept == 0 { 0 } else { ends[kept - 1].min(cut) }..cut];
        let aside = fs::read(path.with_extension("jsonl.torn")).unwrap_or_default();
        if torn.is_empty() {
            prop_assert!(ledger.notices().is_empty() && aside.is_empty());
        } else {
            let noticed = matches!(ledger.notices(), [Notice::Torn { bytes, .. }] if *bytes == torn.len());
            prop_assert!(noticed);
            prop_assert_eq!(&aside[..torn.len()], torn, "the piece itself is kept");
        }

        ledger.append(record(99, 1)).unwrap();
        drop(ledger);
        let (records, notices) = read(&path).unwrap();
        prop_assert!(notices.is_empty());
        prop_assert_eq!(records.as_slice().len(), kept + 1);
    }

    #[test]
    fn a_flipped_byte_costs_its_own_line(pick: prop::sample::Index, flip in 1..=255u8) {
        let (bytes, ends) = &*SOUND;
        // Inside a line, past the opening of the first: joining lines and foreign files have tests of their own.
        let at = 10 + pick.index(bytes.len() - 10);
        prop_assume!(bytes[at] != b'\n' && bytes[at] ^ flip != b'\n');
        let mut damaged = bytes.clone();
        damaged[at] ^= flip;
        let (_folder, path) = place();
        put(&path, &damaged);

        let hit = ends.iter().filter(|&&end| end <= at).count();
        let ledger = Ledger::open(&path).unwrap();
        let read_back: Vec<_> = ledger.records().as_slice().iter().map(|entry| entry.record.clone()).collect();
        let expected: Vec<_> = (0..RECORDS).filter(|&n| n != hit).map(|n| record(n as u64, 3 + n as u32)).collect();
        prop_assert_eq!(read_back, expected);
        let start = if hit == 0 { 0 } else { ends[hit - 1] as u64 };
        let noticed = matches!(
            ledger.notices(),
            [Notice::Skipped { line, byte, .. }] if (*line, *byte) == (hit + 1, start)
        );
        prop_assert!(noticed);
        drop(ledger);
        prop_assert_eq!(fs::read(&path).unwrap(), damaged, "the line stays where it is");
    }
}

#[test]
fn a_last_line_without_its_end_is_kept_and_ended() {
    let (bytes, _) = &*SOUND;
    let (_folder, path) = place();
    put(&path, &bytes[..bytes.len() - 1]);
    let mut ledger = Ledger::open(&path).unwrap();
    assert_eq!((ledger.records().as_slice().len(), ledger.notices().len()), (RECORDS, 0));
    ledger.append(record(99, 1)).unwrap();
    assert_eq!(fs::read(&path).unwrap()[..bytes.len()], **bytes);
    assert_eq!(read(&path).unwrap().0.as_slice().len(), RECORDS + 1);
}

#[test]
fn a_lost_line_end_costs_the_two_lines_it_parted() {
    let (bytes, ends) = &*SOUND;
    let mut damaged = bytes.clone();
    damaged[ends[1] - 1] = b' ';
    let (_folder, path) = place();
    put(&path, &damaged);
    let ledger = Ledger::open(&path).unwrap();
    assert_eq!(ledger.records().as_slice().len(), RECORDS - 2);
    assert!(matches!(ledger.notices(), [Notice::Skipped { line: 2, reason: LineError::Damaged { .. }, .. }]));
}

/// A line of a schema that there is not.
const FOREIGN: &[u8] = b"{\"schema\":7,\"id\":\"?\",\"colour\":\"blue\"}\n";

#[test]
fn a_ledger_of_another_schema_is_refused_and_left_alone() {
    let (_folder, path) = place();
    let torn = [FOREIGN, FOREIGN, b"{\"schema\":7,\"id\""].concat();
    put(&path, &torn);
    for refused in [Ledger::open(&path).map(drop), read(&path).map(drop)] {
        let error = refused.unwrap_err();
        assert!(matches!(error, LedgerError::Schema { found: 7, .. }));
        assert!(error.to_string().contains("has ledger schema 7, this program reads 1:"), "{error}");
    }
    assert_eq!(fs::read(&path).unwrap(), torn);
}

#[test]
fn a_line_of_another_schema_is_skipped_with_its_reason() {
    let (_folder, path) = place();
    put(&path, &[FOREIGN, &SOUND.0].concat());
    let ledger = Ledger::open(&path).unwrap();
    assert_eq!(ledger.records().as_slice().len(), RECORDS);
    assert!(matches!(ledger.notices(), [Notice::Skipped { line: 1, reason: LineError::Schema { found: 7 }, .. }]));
}

#[test]
fn foreign_files_are_refused_and_left_alone() {
    for foreign in [&b"GGUF\x03\0\0\0"[..], b"{\"name\":1}\n", b"\n", b"\0\0\0\0"] {
        let (_folder, path) = place();
        put(&path, foreign);
        assert!(matches!(Ledger::open(&path), Err(LedgerError::NotALedger { .. })), "{foreign:?}");
        assert_eq!(fs::read(&path).unwrap(), foreign);
    }
}
