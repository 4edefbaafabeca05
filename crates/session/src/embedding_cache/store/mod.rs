//! Embeddings on disk: a file that is only appended to, each record with a checksum.
//!
//! ```text
//! header:  "wgoose embeddings 1\n"
//! record:  "wgeR", floats: u32, key: 32 bytes, floats, first 16 bytes of the BLAKE3 of all that
//! ```
//! All little endian. A writer that is killed leaves a torn record at the end; a broken disk may leave broken ones
//! anywhere. Opening skips what is broken, looks for the next sound record, and, if there was anything of the kind, writes
//! the sound ones to a new file and renames it over the old one.

mod record;

use super::key::Key;
use record::{encode, floats, scan, sound};
use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

const HEADER: &[u8] = b"wgoose embeddings 1\n";

/// Why embeddings cannot be kept in a file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refuses.
    #[error("cannot {doing} the embedding store '{}': {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else writes to it.
    #[error(
        "the embedding store '{}' is open already, here or in another process: wait for it, or name another file",
        .0.display()
    )]
    Locked(PathBuf),
    /// The file is something else; it is left untouched.
    #[error("'{}' is no embedding store: name another file, or remove it", .0.display())]
    NotAStore(PathBuf),
}

/// An open store; the file is locked while this lives.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    file: File,
    /// Where each record lies; the last one of a key counts.
    index: HashMap<Key, Range<u64>>,
    /// End of the sound records.
    end: u64,
    /// Whether something half written may lie behind it.
    dirty: bool,
    skipped: u64,
}

impl Store {
    /// Opens a store, or makes one; repairs it where it is damaged.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let io = |doing| move |source| StoreError::Io { doing, path: path.to_owned(), source };
        let mut file = locked(path)?;
        let len = file.metadata().map_err(io("read"))?.len();
        let mut start = vec![0; HEADER.len().min(len as usize)];
        file.read_exact(&mut start).map_err(io("read"))?;
        if start != HEADER[..start.len()] {
            return Err(StoreError::NotAStore(path.to_owned()));
        }
        let found = scan(&file, HEADER.len() as u64, len).map_err(io("read"))?;
        let whole = start.len() == HEADER.len() && found.broken == 0;
        if !whole {
            let doing = if len == 0 { "begin" } else { "repair" };
            file = rewrite(path, &file, &found.records).map_err(io(doing))?;
        }
        let mut end = HEADER.len() as u64;
        let mut index = HashMap::new();
        for (key, range) in found.records {
            let len = range.end - range.start;
            index.insert(key, end..end + len);
            end += len;
        }
        Ok(Store { path: path.to_owned(), file, index, end, dirty: false, skipped: found.broken })
    }

    /// Broken stretches that were skipped when it was opened.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The floats of a key. A record that has been damaged since counts for nothing.
    pub(super) fn get(&mut self, key: &Key) -> Option<Vec<f32>> {
        let range = self.index.get(key)?.clone();
        let mut record = vec![0; (range.end - range.start) as usize];
        self.file.seek(SeekFrom::Start(range.start)).ok()?;
        self.file.read_exact(&mut record).ok()?;
        match sound(&record) {
            Some(found) if found == *key => Some(floats(&record)),
            _ => {
                self.index.remove(key);
                None
            }
        }
    }

    /// Appends a record, unless the key has one. It outlives this process once this returns, not a power cut.
    pub(super) fn append(&mut self, key: Key, value: &[f32]) -> Result<(), StoreError> {
        if self.index.contains_key(&key) {
            return Ok(());
        }
        let record = encode(&key, value);
        let write = |file: &mut File| {
            file.seek(SeekFrom::Start(self.end))?;
            file.write_all(&record)
        };
        // After a full disk, what was half written goes first.
        let cleared = if self.dirty { self.file.set_len(self.end) } else { Ok(()) };
        let written = cleared.and_then(|()| write(&mut self.file));
        self.dirty = written.is_err();
        written.map_err(|source| StoreError::Io { doing: "append to", path: self.path.clone(), source })?;
        let range = self.end..self.end + record.len() as u64;
        self.end = range.end;
        self.index.insert(key, range);
        Ok(())
    }
}

/// Opens the file, or makes one, and locks it.
fn locked(path: &Path) -> Result<File, StoreError> {
    let io = |doing| move |source| StoreError::Io { doing, path: path.to_owned(), source };
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = wgoose_files::open_with(&mut options, path).map_err(io("open"))?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => StoreError::Locked(path.to_owned()),
            TryLockError::Error(source) => io("lock")(source),
        })?;
        // Between the two, a repair may have put another file in its place.
        if wgoose_files::is_at(&file, path).map_err(io("open"))? {
            return Ok(file);
        }
    }
}

/// Writes a header and these records of a file to one that then takes its place.
fn rewrite(path: &Path, mut old: &File, records: &[(Key, Range<u64>)]) -> io::Result<File> {
    wgoose_files::replace(path, |new| {
        new.lock()?;
        let mut out = BufWriter::new(new);
        out.write_all(HEADER)?;
        for (_, range) in records {
            old.seek(SeekFrom::Start(range.start))?;
            io::copy(&mut old.take(range.end - range.start), &mut out)?;
        }
        out.flush()
    })
}

#[cfg(test)]
mod tests {
    use super::record::Scan;
    use super::*;
    use proptest::prelude::*;

    fn scanned(bytes: &[u8]) -> Scan {
        scan(io::Cursor::new(bytes), HEADER.len() as u64, bytes.len() as u64).unwrap()
    }

    fn key(n: usize) -> Key {
        Key(*blake3::hash(&n.to_le_bytes()).as_bytes())
    }

    fn value(n: usize) -> Vec<f32> {
        (0..n % 7).map(|i| (n * 10 + i) as f32).collect()
    }

    fn filled(path: &Path, records: usize) {
        let mut store = Store::open(path).unwrap();
        (0..records).for_each(|n| store.append(key(n), &value(n)).unwrap());
    }

    proptest! {
        /// Bytes overwritten, taken out or cut off: what is sound is found, what is not is gone, the next opening is clean.
        #[test]
        fn damage_costs_the_damaged_records_only(
            hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0usize..3), 1..4),
        ) {
            const RECORDS: usize = 20;
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store");
            filled(&path, RECORDS);
            let mut bytes = std::fs::read(&path).unwrap();
            let mut hurt = 0;
            for (at, byte, how) in hits {
                let at = HEADER.len() + at.index(bytes.len() - HEADER.len());
                hurt += 1;
                match how {
                    0 => bytes[at] = byte,
                    1 => drop(bytes.remove(at)),
                    _ => {
                        let left = scanned(&bytes[..at]).records.len();
                        hurt += scanned(&bytes).records.len() - left;
                        bytes.truncate(at);
                    }
                }
                if bytes.len() == HEADER.len() {
                    break;
                }
            }
            std::fs::write(&path, &bytes).unwrap();
            let mut store = Store::open(&path).unwrap();
            let mut left = 0;
            for n in 0..RECORDS {
                if let Some(got) = store.get(&key(n)) {
                    prop_assert_eq!(got, value(n));
                    left += 1;
                }
            }
            prop_assert!(left + hurt >= RECORDS, "{} left of {}, {} hit", left, RECORDS, hurt);
            store.append(key(99), &[9.0]).unwrap();
            drop(store);
            let mut again = Store::open(&path).unwrap();
            prop_assert_eq!((again.skipped(), again.index.len()), (0, left + 1));
            prop_assert_eq!(again.get(&key(99)), Some(vec![9.0]));
            drop(again);
            prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
        }
    }

    #[test]
    fn a_store_has_a_single_writer_and_other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = Store::open(&path).unwrap();
        assert!(matches!(Store::open(&path), Err(StoreError::Locked(_))));
        drop(store);
        Store::open(&path).unwrap();
        std::fs::write(&path, b"a goose").unwrap();
        assert!(matches!(Store::open(&path), Err(StoreError::NotAStore(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"a goose", "it is left untouched");
        assert!(matches!(Store::open(&folder.path().join("no/store")), Err(StoreError::Io { doing: "open", .. })));
    }

    #[test]
    fn a_repaired_store_stays_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        filled(&path, 3);
        let torn = std::fs::read(&path).unwrap();
        std::fs::write(&path, &torn[..torn.len() - 1]).unwrap();
        let mut store = Store::open(&path).unwrap();
        assert_eq!((store.skipped(), store.get(&key(1)), store.get(&key(2))), (1, Some(value(1)), None));
        assert!(matches!(Store::open(&path), Err(StoreError::Locked(_))));
    }

    #[test]
    fn a_record_damaged_in_an_open_store_is_a_miss() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        filled(&path, 3);
        let mut store = Store::open(&path).unwrap();
        let at = store.index[&key(2)].start + 40;
        store.file.seek(SeekFrom::Start(at)).unwrap();
        store.file.write_all(&[0xff]).unwrap();
        assert_eq!((store.get(&key(2)), store.get(&key(1))), (None, Some(value(1))));
        store.append(key(2), &value(2)).unwrap();
        assert_eq!(store.get(&key(2)), Some(value(2)));
    }

    #[test]
    fn a_failed_append_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let mut store = Store::open(&path).unwrap();
        store.append(key(1), &value(1)).unwrap();
        // As after a full disk.
        store.file.write_all(&[b'x'; 1000]).unwrap();
        store.dirty = true;
        store.append(key(2), &value(2)).unwrap();
        drop(store);
        assert_eq!(Store::open(&path).unwrap().skipped(), 0);
    }
}
