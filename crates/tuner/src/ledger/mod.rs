//! The memory of a sweep: one JSON line per thing that happened, on disk before the next thing happens.
//!
//! A ledger is append-only. Its writer holds an exclusive lock; a record is acknowledged once its bytes are synced. A
//! writer killed in the middle of a line leaves a torn tail, which the next one moves to `<ledger>.torn`. A damaged line
//! in the middle, or one of a newer schema, is skipped, reported and left where it is: a sweep of hours is not lost to
//! one bad line, nor is the line. Nothing that was acknowledged is ever rewritten.

mod earlier;
mod error;
mod identity;
mod line;
mod number;
mod record;
mod records;
mod scan;

pub use error::{LedgerError, LineError};
pub use identity::{Clock, Earlier, Identity, Policy, Subject, Tried};
pub use record::{Cause, Decision, Gate, Outcome, PlanRecord, Reason, Record, Refused, Session, Timing, Trial};
pub use records::{Entry, Records};
pub use scan::Notice;

use error::at;
use flate2::read::MultiGzDecoder;
use scan::{Scan, Tail};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// How a file compressed by gzip begins (RFC 1952): the ledgers beside shipped plans are.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A ledger open for writing; the lock is held until it is dropped or its process ends, however it ends.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: File,
    /// Length of the acknowledged part of the file.
    end: u64,
    /// Whether bytes of a failed append may lie beyond `end`.
    dirty: bool,
    records: Records,
    notices: Vec<Notice>,
}

impl Ledger {
    /// Opens the ledger at `path`, or starts one there, parent folders included; reads what it holds and repairs a torn
    /// end. Anything found amiss is in [`Ledger::notices`].
    ///
    /// # Errors
    /// [`LedgerError::Locked`] where another writer has it, [`LedgerError::NotALedger`] where the file is something
    /// else (it is left untouched), [`LedgerError::Io`] otherwise.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, LedgerError> {
        let path = path.into();
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_path_buf();
        fs::create_dir_all(&folder).map_err(at("create", &folder))?;
        // Not `append`: on Windows that withholds the right to shorten the file. The lock makes the position ours.
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(at("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LedgerError::Locked { path }),
            Err(TryLockError::Error(source)) => return Err(at("lock", &path)(source)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(at("read", &path))?;
        if bytes.is_empty() {
            sync_folder(&folder)?;
        }

        let Scan { records, notices, tail, end } =
            scan::scan(&bytes).ok_or_else(|| LedgerError::NotALedger { path: path.clone() })?;
        let mut ledger = Self { path, file, end, dirty: false, records, notices };
        match tail {
            Tail::Clean => {}
            Tail::Unended => ledger.extend(b"\n").map_err(at("append to", &ledger.path))?,
            Tail::Torn => ledger.set_aside(&bytes[end as usize..])?,
        }
        Ok(ledger)
    }

    /// Writes `record`, returns once it is on disk.
    ///
    /// # Errors
    /// [`LedgerError::Record`] where JSON cannot carry it (a sample or the time is not finite). [`LedgerError::Io`]
    /// where the disk is full or gone: the record is then not acknowledged, and the next append first clears what was
    /// half written.
    pub fn append(&mut self, record: Record) -> Result<&Entry, LedgerError> {
        let (id, mut line) = line::encode(&record)?;
        line.push('\n');
        self.extend(line.as_bytes()).map_err(at("append to", &self.path))?;
        Ok(self.records.push(Entry::new(id, record)))
    }

    /// Every readable record, oldest first.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// All trials of one identity, oldest first: what a resumed sweep asks before it tries something.
    pub fn find(&self, key: &str) -> impl Iterator<Item = &Trial> {
        self.records.find(key)
    }

    /// What was amiss when the ledger was opened; to be shown to the user.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// As [`Ledger::notices`], for good.
    pub(crate) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Adds `bytes` to the acknowledged part of the file: one write, then a sync.
    fn extend(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.dirty {
            self.file.set_len(self.end)?;
        }
        self.file.seek(SeekFrom::Start(self.end))?;
        self.dirty = true;
        self.file.write_all(bytes)?;
        self.file.sync_data()?;
        self.dirty = false;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Moves a torn tail out of the ledger. The copy is synced before the original goes.
    fn set_aside(&mut self, torn: &[u8]) -> Result<(), LedgerError> {
        let mut name = self.path.clone().into_os_string();
        name.push(".torn");
        let aside = PathBuf::from(name);
        let keep = || {
            let mut file = OpenOptions::new().create(true).append(true).open(&aside)?;
            file.write_all(torn)?;
            file.write_all(b"\n")?;
            file.sync_data()
        };
        keep().map_err(at("write", &aside))?;
        self.file.set_len(self.end).and_then(|()| self.file.sync_data()).map_err(at("shorten", &self.path))
    }
}

/// Reads a ledger, compressed by gzip or not, without locking or repairing it, also while a sweep writes: for reports. (On Windows the
/// writer's lock keeps readers out too: that is an [`LedgerError::Io`].)
///
/// # Errors
/// [`LedgerError::NotALedger`], [`LedgerError::Io`].
pub fn read(path: &Path) -> Result<(Records, Vec<Notice>), LedgerError> {
    let mut bytes = fs::read(path).map_err(at("read", path))?;
    if bytes.starts_with(&GZIP) {
        let mut unpacked = Vec::new();
        MultiGzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).map_err(at("decompress", path))?;
        bytes = unpacked;
    }
    let Scan { records, notices, .. } =
        scan::scan(&bytes).ok_or_else(|| LedgerError::NotALedger { path: path.to_path_buf() })?;
    Ok((records, notices))
}

/// A new file survives a power cut only once its folder is synced too. Elsewhere than on Unix folders cannot be.
fn sync_folder(folder: &Path) -> Result<(), LedgerError> {
    if cfg!(unix) { File::open(folder).and_then(|f| f.sync_all()).map_err(at("sync", folder)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_append_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        let mut ledger = Ledger::open(&path).unwrap();
        ledger.append(line::tests::plain()).unwrap();
        // As after a full disk: a piece of a line, longer than the next record.
        ledger.file.write_all(&[b'x'; 10_000]).unwrap();
        ledger.dirty = true;
        ledger.append(line::tests::plain()).unwrap();
        let (records, notices) = read(&path).unwrap();
        assert_eq!((records.as_slice().len(), notices.len()), (2, 0), "{notices:?}");
    }

    #[test]
    fn a_compressed_ledger_is_read_and_never_written() {
        let folder = tempfile::tempdir().unwrap();
        let [plain, packed] = ["ledger.jsonl", "ledger.jsonl.gz"].map(|name| folder.path().join(name));
        Ledger::open(&plain).unwrap().append(line::tests::plain()).unwrap();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&fs::read(&plain).unwrap()).unwrap();
        let bytes = encoder.finish().unwrap();
        fs::write(&packed, &bytes).unwrap();
        assert_eq!(read(&packed).unwrap().0.as_slice(), read(&plain).unwrap().0.as_slice());
        assert!(matches!(Ledger::open(&packed), Err(LedgerError::NotALedger { .. })));
        // Cut short, or not JSON inside.
        fs::write(&packed, &bytes[..bytes.len() / 2]).unwrap();
        assert!(matches!(read(&packed), Err(LedgerError::Io { action: "decompress", .. })));
    }
}
