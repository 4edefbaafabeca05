//! Text of files reaches the terminal escaped, wherever a file has bytes that a terminal obeys.

use crate::binary::{synth, wgoose};
use std::fs::{read, write};

/// A file, and the command that reads it.
struct Victim {
    name: &'static str,
    bytes: Vec<u8>,
    line: &'static str,
    /// How its format spells the byte in a string.
    spelled: &'static str,
}

/// Quotes of a file behind which it is damaged.
const QUOTES: usize = 32;

#[test]
fn a_raw_byte_in_any_string_of_a_file_is_not_printed() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "model.st", "");
    write(folder.path().join("before.jsonl"), include_bytes!("../../../../optimization_plan/benchmarks.jsonl"))
        .unwrap();
    let ledger = include_bytes!("../../../../experiments/000-itself/results/llvmpipe.jsonl.zst");
    let victims = [
        Victim {
            name: "plan.ron",
            bytes: include_bytes!("../../../../plans/nvidia-h200/24x2048-f16.ron").to_vec(),
            line: "info plan.ron",
            spelled: "\\u{1b}",
        },
        Victim {
            name: "ledger.jsonl",
            bytes: wgoose_files::unpacked(ledger.to_vec()).unwrap(),
            line: "plans derive ledger.jsonl",
            spelled: "\\u001b",
        },
        Victim {
            name: "record.jsonl",
            bytes: include_bytes!("../../../../optimization_plan/benchmarks.jsonl").to_vec(),
            line: "bench compare before.jsonl record.jsonl",
            spelled: "\\u001b",
        },
        Victim {
            name: "damaged.st",
            bytes: read(folder.path().join("model.st")).unwrap(),
            line: "info damaged.st",
            spelled: "\\u001b",
        },
    ];
    for Victim { name, bytes, line, spelled } in victims {
        let quotes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'"').map(|(at, _)| at + 1);
        for at in quotes.take(QUOTES) {
            // In place of a byte, and as text of a string.
            let replaced = [&bytes[..at], b"\x1b", &bytes[at + 1..]].concat();
            let spelled_out = [&bytes[..at], spelled.as_bytes(), &bytes[at..]].concat();
            for damaged in [replaced, spelled_out] {
                write(folder.path().join(name), damaged).unwrap();
                let output = wgoose(folder.path(), line.split(' '));
                assert!(matches!(output.status.code(), Some(0..=2)), "{line}, byte {at}: {output:?}");
                let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
                let is_raw = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
                assert!(!text.contains(is_raw), "{line}, byte {at}: {text:?}");
            }
        }
    }
}
