//! Damaged files: an answer or a typed error, never a panic, never more memory than the file accounts for.

use crate::model_files::support::gguf::{Gguf, Value};
use crate::model_files::support::pth::{self, Style, Zip};
use crate::model_files::support::{TINY, alloc, checkpoint, open, safetensors};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::sync::LazyLock;
use wgoose_graph::{Format, ModelShape, Weight};

/// Bytes the reader may hold per byte of the file, and beside that. An index entry is larger than the least it takes
/// to describe one; the fixed part pays for buffers of the system's and for tables that grow by doubling.
const PER_BYTE: usize = 96;
const FIXED: usize = 64 << 10;

static FILES: LazyLock<[Vec<u8>; 8]> = LazyLock::new(|| {
    let shape = ModelShape { layers: 2, width: 16, ffn: 24, head_size: 16, vocab: 10, ..TINY };
    [
        Gguf::of(&shape).write(),
        safetensors::write(&checkpoint(&shape, Format::F16, false)),
        pth::write(&checkpoint(&shape, Format::BF16, true), Style::Plain),
        pth::write(&checkpoint(&shape, Format::F32, true), Style::OneStorage),
        pth::write(&checkpoint(&shape, Format::F16, false), Style::Parameters),
        pth::write(&checkpoint(&shape, Format::F16, false), Style::Protocol5),
        pth::write(&checkpoint(&shape, Format::BF16, true), Style::TensorsWithAttributes),
        pth::write(&checkpoint(&shape, Format::F32, true), Style::UntypedStorages),
    ]
});

/// Opens a file and reads everything in it.
fn survive(file: &[u8]) {
    let (model, held) = alloc::peak(|| open(file));
    assert!(held <= FIXED + PER_BYTE * file.len(), "{held} bytes held for a file of {}", file.len());
    match model {
        Ok(model) => {
            for weight in Weight::all(model.shape()) {
                let view = model.tensor(weight);
                assert_eq!(view.to_f32().len(), view.rows() * view.cols());
            }
            let _ = (model.vocabulary(), model.fingerprint());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// One act of vandalism.
#[derive(Clone, Debug)]
enum Damage {
    Truncate(Index),
    Flip(Index, u8),
    /// Eight bytes become a number that often hurts.
    Number(Index, u64),
    Delete(Index, usize),
    Insert(Index, Vec<u8>),
    /// A piece is copied over another.
    Splice(Index, Index, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let number = prop_oneof![
        Just(0),
        Just(u64::MAX),
        Just(u64::MAX / 2),
        Just(1 << 32),
        Just(1 << 31),
        (0..64u32).prop_map(|n| 1 << n),
        any::<u64>(),
    ];
    prop_oneof![
        1 => any::<Index>().prop_map(Damage::Truncate),
        4 => (any::<Index>(), 1u8..).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        2 => (any::<Index>(), number).prop_map(|(at, number)| Damage::Number(at, number)),
        1 => (any::<Index>(), 1..64usize).prop_map(|(at, len)| Damage::Delete(at, len)),
        1 => (any::<Index>(), vec(any::<u8>(), 1..16)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        2 => (any::<Index>(), any::<Index>(), 1..256usize).prop_map(|(from, to, len)| Damage::Splice(from, to, len)),
    ]
}

/// Applies damage to the first `region` bytes: most of a file is numbers, which nothing depends on.
fn apply(file: &mut Vec<u8>, damage: &Damage, region: impl Fn(&Index, usize) -> usize) {
    if file.is_empty() {
        return;
    }
    let len = file.len();
    match damage {
        Damage::Truncate(at) => file.truncate(at.index(len)),
        Damage::Flip(at, bits) => file[region(at, len)] ^= bits,
        Damage::Number(at, number) => {
            let at = region(at, len);
            let n = 8.min(len - at);
            file[at..at + n].copy_from_slice(&number.to_le_bytes()[..n]);
        }
        Damage::Delete(at, n) => {
            let at = region(at, len);
            file.drain(at..len.min(at + n));
        }
        Damage::Insert(at, bytes) => {
            let at = region(at, len);
            file.splice(at..at, bytes.iter().copied());
        }
        Damage::Splice(from, to, n) => {
            let (from, to) = (region(from, len), region(to, len));
            let n = *n.min(&(len - from.max(to)));
            file.copy_within(from..from + n, to);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, max_shrink_iters: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files(which in 0..5usize, damages in vec(damage(), 1..5), end in any::<bool>()) {
        let mut file = FILES[which].clone();
        for damage in &damages {
            // Descriptions stand at the start (GGUF, safetensors, pickle) or at the end (zip).
            let region = |index: &Index, len: usize| {
                let part = index.index(len.min(10_000));
                if end { len - 1 - part } else { part }
            };
            apply(&mut file, damage, region);
        }
        survive(&file);
    }

    #[test]
    fn files_of_two_containers(a in 0..5usize, b in 0..5usize, cut in any::<Index>(), resume in any::<Index>()) {
        let (a, b) = (&FILES[a], &FILES[b]);
        survive(&[&a[..cut.index(a.len())], &b[resume.index(b.len())..]].concat());
    }

    #[test]
    fn random_headers(magic in 0..5usize, bytes in vec(any::<u8>(), 0..200)) {
        let magic: &[u8] = [&b"GGUF\x03\0\0\0"[..], b"GGUF", b"PK\x03\x04", b"\x40\0\0\0\0\0\0\0{", b""][magic];
        survive(&[magic, &bytes].concat());
    }

    #[test]
    fn random_programs(bytes in vec(prop_oneof![
        proptest::sample::select(b"(.)}NJKMXctRQubsqrhj\x80\x85\x86\x87\x88\x89\x8a\0\x01\x02".to_vec()),
        any::<u8>(),
    ], 0..200)) {
        survive(&archive(&bytes));
        survive(&archive(&[&pth::Program::begin().0[..], &bytes].concat()));
    }
}

fn archive(program: &[u8]) -> Vec<u8> {
    pth::zip(&[("data.pkl".to_owned(), program.to_vec())], Zip::default())
}

#[test]
fn every_truncation() {
    for file in FILES.iter() {
        for len in (0..file.len()).step_by(41) {
            assert!(open(&file[..len]).is_err(), "{len} of {} bytes", file.len());
        }
    }
}

#[test]
fn programs_that_only_grow() {
    let long = 1 << 20;
    for unit in ["(", ")", "}", "N", "}q\0", ")\u{1}", "K\0", "((", "}}s", "h\0", "]", "](Ne", "G\0\0\0\0\0\0\0\0"] {
        let program = [pth::Program::begin().0, unit.as_bytes().repeat(long / unit.len())].concat();
        survive(&archive(&program));
    }
    for unit in [")", "}", "K\0"] {
        let tuple = [b"(", unit.as_bytes().repeat(16_000).as_slice(), b"t"].concat();
        survive(&archive(&tuple.repeat(10)));
    }
    // A tuple of a tuple of a tuple ...
    survive(&archive(&[&b"\x80\x02)"[..], &[0x85].repeat(long), b"."].concat()));
    // Doubling: each tuple holds the last one twice. As a tree it would have 2^1000 leaves.
    let mut doubling = b"\x80\x02)q\0".to_vec();
    for i in 0..1000u32 {
        doubling.push(b'j');
        doubling.extend(i.to_le_bytes());
        doubling.push(b'j');
        doubling.extend(i.to_le_bytes());
        doubling.extend([0x86, b'r']);
        doubling.extend((i + 1).to_le_bytes());
    }
    survive(&archive(&doubling));
}

#[test]
fn tensors_that_share_a_long_tuple() {
    // The first tensor's sizes stay in the memo and serve a hundred more: copies of them would outgrow the file.
    let sizes = [&b"("[..], &b"K\x01".repeat(15_000), b"tq\x02"].concat();
    let mut program = pth::Program::begin();
    for i in 0..100 {
        program.text(&i.to_string());
        program.0.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        program.text("storage");
        program.0.extend(b"ctorch\nFloatStorage\n");
        program.text("0");
        program.0.extend(b"NK\x01tQK\x00");
        program.0.extend(if i == 0 { &sizes[..] } else { b"h\x02" });
        program.0.extend(b"h\x02tR");
    }
    survive(&pth::zip(&[("data.pkl".to_owned(), program.end()), ("data/0".to_owned(), vec![0; 4])], Zip::default()));
}

#[test]
fn nested_arrays_and_huge_counts() {
    let mut nested = Gguf::of(&TINY);
    let level = [&9u32.to_le_bytes()[..], &1u64.to_le_bytes()].concat();
    nested.set("deep", Value::Raw(9, level.repeat(100_000)));
    survive(&nested.write());
    for kind in [0u32, 8, 9, 10] {
        let mut huge = Gguf::of(&TINY);
        huge.set("huge", Value::Raw(9, [&kind.to_le_bytes()[..], &u64::MAX.to_le_bytes()].concat()));
        assert!(open(&huge.write()).is_err());
        survive(&huge.write());
    }
    let mut many = Gguf::of(&TINY);
    many.keys.extend((0..50_000).map(|i| (format!("{i}"), Value::Raw(0, vec![0]))));
    survive(&many.write());
    let zeros = [b"\0\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[".to_vec(), b"0,".repeat(100_000)].concat();
    survive(&[&(zeros.len() as u64 - 8).to_le_bytes()[..], &zeros[8..]].concat());
    survive(&[&200_000u64.to_le_bytes()[..], b"{\"a\":", &b"[".repeat(200_000)].concat());
}
