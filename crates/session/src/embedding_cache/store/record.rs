//! Records of a store: how they are written, and how they are found among what is broken.

use crate::embedding_cache::key::Key;
use std::ops::Range;

const MAGIC: &[u8] = b"wgeR";
/// Magic, length, key.
const FRONT: usize = 4 + 4 + 32;
/// Checksum.
const CHECK: usize = 16;

/// The bytes of a record.
pub(super) fn encode(key: &Key, value: &[f32]) -> Vec<u8> {
    let mut record = Vec::with_capacity(FRONT + 4 * value.len() + CHECK);
    record.extend_from_slice(MAGIC);
    record.extend_from_slice(&(value.len() as u32).to_le_bytes());
    record.extend_from_slice(&key.0);
    record.extend(value.iter().flat_map(|x| x.to_le_bytes()));
    let check = blake3::hash(&record);
    record.extend_from_slice(&check.as_bytes()[..CHECK]);
    record
}

/// The key and length of the record that `bytes` begin with, if its checksum is right.
pub(super) fn sound(bytes: &[u8]) -> Option<(Key, usize)> {
    let front = bytes.get(..FRONT).filter(|front| front.starts_with(MAGIC))?;
    let floats = u32::from_le_bytes([front[4], front[5], front[6], front[7]]) as usize;
    let checked = FRONT + floats.checked_mul(4)?;
    let record = bytes.get(..checked.checked_add(CHECK)?)?;
    let mut key = Key([0; 32]);
    key.0.copy_from_slice(&front[8..FRONT]);
    (blake3::hash(&record[..checked]).as_bytes()[..CHECK] == record[checked..]).then_some((key, record.len()))
}

/// The floats of a sound record.
pub(super) fn floats(record: &[u8]) -> Vec<f32> {
    let data = record[FRONT..record.len() - CHECK].chunks_exact(4);
    data.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// The content of a file.
pub(super) struct Scan {
    pub(super) records: Vec<(Key, Range<usize>)>,
    /// Stretches that are no records.
    pub(super) broken: u64,
}

/// Finds the sound records from `start` on.
pub(super) fn scan(bytes: &[u8], start: usize) -> Scan {
    let mut found = Scan { records: Vec::new(), broken: 0 };
    let (mut at, mut was_sound) = (start, true);
    while at < bytes.len() {
        match sound(&bytes[at..]) {
            Some((key, len)) => {
                found.records.push((key, at..at + len));
                (at, was_sound) = (at + len, true);
            }
            None => {
                found.broken += u64::from(was_sound);
                let next = bytes[at + 1..].windows(MAGIC.len()).position(|window| window == MAGIC);
                (at, was_sound) = (next.map_or(bytes.len(), |n| at + 1 + n), false);
            }
        }
    }
    found
}
