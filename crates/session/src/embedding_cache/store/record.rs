//! Records of a store: how they are written, and how they are found among what is broken.

use crate::embedding_cache::key::Key;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;

const MAGIC: [u8; 4] = *b"wgeR";
/// Magic, length, key.
const FRONT: usize = 4 + 4 + 32;
/// Checksum.
const CHECK: usize = 16;

/// The bytes of a record.
pub(super) fn encode(key: &Key, value: &[f32]) -> Vec<u8> {
    let mut record = Vec::with_capacity(FRONT + 4 * value.len() + CHECK);
    record.extend_from_slice(&MAGIC);
    record.extend_from_slice(&(value.len() as u32).to_le_bytes());
    record.extend_from_slice(&key.0);
    record.extend(value.iter().flat_map(|x| x.to_le_bytes()));
    let check = blake3::hash(&record);
    record.extend_from_slice(&check.as_bytes()[..CHECK]);
    record
}

/// The key, and the length of the record in bytes, that its front says.
fn announced(front: &[u8; FRONT]) -> Option<(Key, u64)> {
    let (magic, rest) = front.split_at(MAGIC.len());
    let (floats, key) = rest.split_first_chunk()?;
    let len = FRONT as u64 + 4 * u64::from(u32::from_le_bytes(*floats)) + CHECK as u64;
    Some((Key(key.try_into().ok()?), len)).filter(|_| magic == MAGIC)
}

/// The key of the record that `bytes` are, if its checksum is right.
pub(super) fn sound(bytes: &[u8]) -> Option<Key> {
    let (key, _) = announced(bytes.first_chunk()?).filter(|(_, len)| *len == bytes.len() as u64)?;
    let (checked, check) = bytes.split_at(bytes.len() - CHECK);
    (blake3::hash(checked).as_bytes()[..CHECK] == *check).then_some(key)
}

/// The floats of a sound record.
pub(super) fn floats(record: &[u8]) -> Vec<f32> {
    let data = record[FRONT..record.len() - CHECK].chunks_exact(4);
    data.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// The content of a file.
pub(super) struct Scan {
    pub(super) records: Vec<(Key, Range<u64>)>,
    /// Stretches that are no records.
    pub(super) broken: u64,
}

/// Finds the sound records of a file of `len` bytes from `start` on. The time it takes is proportional to the length, and the memory
/// to the number of records, whatever the file holds.
pub(super) fn scan(file: impl Read + Seek, start: u64, len: u64) -> io::Result<Scan> {
    let input = BufReader::with_capacity(BUFFER as usize, file);
    let mut reader = Reader { input, at: None, len, patience: PATIENCE * len + LEAST_PATIENCE };
    let mut found = Scan { records: Vec::new(), broken: 0 };
    let (mut at, mut was_sound) = (start, true);
    while at < len {
        match reader.record(at)? {
            Some((key, end)) => {
                found.records.push((key, at..end));
                (at, was_sound) = (end, true);
            }
            None => {
                found.broken += u64::from(was_sound);
                (at, was_sound) = (reader.next_magic(at + 1)?, false);
            }
        }
    }
    Ok(found)
}

/// Bytes read at once.
const BUFFER: u64 = 1 << 16;

/// What may look like records and be none: so many bytes for each of the file. A damaged length makes a record of up to the whole file.
const PATIENCE: u64 = 16;

/// The same for a small file.
const LEAST_PATIENCE: u64 = 1000 * BUFFER;

/// A file, read from front to back as far as it can be.
struct Reader<R> {
    input: BufReader<R>,
    /// Where the next byte comes from, once anything was read.
    at: Option<u64>,
    len: u64,
    /// Bytes that may still be read for nothing. Once they are spent the rest counts as broken: the file was made for a long search.
    patience: u64,
}

impl<R: Read + Seek> Reader<R> {
    /// The key and the end of the record that begins there, if it is sound.
    fn record(&mut self, at: u64) -> io::Result<Option<(Key, u64)>> {
        let mut front = [0; FRONT];
        if self.len - at < front.len() as u64 {
            return Ok(None);
        }
        self.seek(at)?;
        self.read(&mut front)?;
        let fits = |(_, len): &(Key, u64)| *len <= self.len - at && *len <= self.patience;
        let Some((key, len)) = announced(&front).filter(fits) else { return Ok(None) };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&front);
        let mut left = len - (FRONT + CHECK) as u64;
        let mut piece = [0; 4096];
        while left > 0 {
            let piece = &mut piece[..left.min(4096) as usize];
            self.read(piece)?;
            hasher.update(piece);
            left -= piece.len() as u64;
        }
        let mut check = [0; CHECK];
        self.read(&mut check)?;
        if hasher.finalize().as_bytes()[..CHECK] == check {
            return Ok(Some((key, at + len)));
        }
        self.patience = self.patience.saturating_sub(len.max(BUFFER));
        Ok(None)
    }

    /// Where the next record may begin, from there on; the end of the file if none does.
    fn next_magic(&mut self, from: u64) -> io::Result<u64> {
        self.seek(from)?;
        let mut last = [0; MAGIC.len()];
        for end in from + 1..=self.len {
            last.rotate_left(1);
            self.read(&mut last[MAGIC.len() - 1..])?;
            if last == MAGIC {
                return Ok(end - MAGIC.len() as u64);
            }
        }
        Ok(self.len)
    }

    fn seek(&mut self, to: u64) -> io::Result<()> {
        match self.at {
            // Stays within the buffer if it can.
            Some(at) => self.input.seek_relative(to as i64 - at as i64)?,
            None => drop(self.input.seek(SeekFrom::Start(to))?),
        }
        self.at = Some(to);
        Ok(())
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.input.read_exact(bytes)?;
        self.at = self.at.map(|at| at + bytes.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::io::Cursor;

    /// Counts the bytes that are read.
    struct Counting<'a>(Cursor<&'a [u8]>, &'a Cell<u64>);

    impl Read for Counting<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let read = self.0.read(bytes)?;
            self.1.set(self.1.get() + read as u64);
            Ok(read)
        }
    }

    impl Seek for Counting<'_> {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    /// A sound record, and then every few bytes the front of one that reaches to the end and is not sound.
    #[test]
    fn a_file_made_for_a_long_search_is_read_a_few_times() {
        const LEN: usize = 4 << 20;
        let mut bytes = encode(&Key([7; 32]), &[1.0, 2.0]);
        while bytes.len() + FRONT + CHECK <= LEN {
            bytes.extend_from_slice(&MAGIC);
            bytes.extend_from_slice(&(((LEN - bytes.len() - FRONT - CHECK) / 4) as u32).to_le_bytes());
            bytes.extend_from_slice(&[0; FRONT - 8]);
        }
        bytes.resize(LEN, 0);
        let read = Cell::new(0);
        let found = scan(Counting(Cursor::new(&bytes), &read), 0, bytes.len() as u64).unwrap();
        assert_eq!((found.records.len(), found.broken), (1, 1));
        let most = (PATIENCE + 4) * bytes.len() as u64 + 2 * LEAST_PATIENCE;
        assert!(read.get() < most, "{} bytes of {}", read.get(), bytes.len());
    }
}
