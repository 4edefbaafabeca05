//! The memory of a sweep: one JSON line per thing that happened, on disk before the next thing happens.
//!
//! A ledger is append-only. Its writer holds an exclusive lock; a record is acknowledged once its bytes are synced. A
//! writer killed in the middle of a line leaves a torn tail, which the next one moves to `<ledger>.torn`. A damaged
//! line in the middle, or one of another schema, is skipped, reported and left where it is: a sweep of hours is not
//! lost to one bad line, nor is the line. A file without a single line of this schema is refused, and not touched.
//! Nothing that was acknowledged is ever rewritten.

mod error;
mod identity;
mod line;
mod number;
mod record;
mod records;
mod scan;

pub use error::{LedgerError, LineError};
pub use identity::{Clock, Identity};
pub use record::{
    Alike, ArmRecord, Arms, Cause, Decision, Gate, ImpossibleArm, Outcome, PlanRecord, Reason, Record, Refused,
    SessionRecord, Timing, Trial, UNTRIED,
};
pub use records::{Entry, Records};
pub use scan::Notice;

use scan::{Scan, Tail};
use std::path::{Path, PathBuf};
use wgoose_files::{Lines, LinesError};

/// A ledger open for writing; the lock is held until it is dropped or its process ends, however it ends.
#[derive(Debug)]
pub struct Ledger {
    lines: Lines,
    records: Records,
    notices: Vec<Notice>,
}

impl Ledger {
    /// Opens the ledger at `path`, or starts one there, parent folders included; reads what it holds and repairs a torn
    /// end. Anything found amiss is in [`Ledger::notices`].
    ///
    /// # Errors
    /// [`LedgerError::Locked`] where another writer has it, [`LedgerError::NotALedger`] or [`LedgerError::Schema`] where
    /// the file is something else (it is left untouched), [`LedgerError::Lines`] otherwise.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, LedgerError> {
        let path = path.into();
        let (mut lines, bytes) = Lines::open(&path)?;
        let Scan { records, notices, tail, end } = scan::scan(&bytes, &path)?;
        match tail {
            Tail::Clean => {}
            Tail::Unended => lines.end_line()?,
            Tail::Torn => drop(lines.set_aside(end)?),
        }
        Ok(Self { lines, records, notices })
    }

    /// Writes `record`, returns once it is on disk.
    ///
    /// # Errors
    /// [`LedgerError::Record`] where JSON cannot carry it (a sample or the time is not finite). [`LedgerError::Lines`]
    /// where the disk is full or gone: the record is then not acknowledged, and the next append first clears what was
    /// half written.
    pub fn append(&mut self, record: Record) -> Result<&Entry, LedgerError> {
        let (id, line) = line::encode(&record)?;
        self.lines.append(&line)?;
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
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }
}

/// Reads a ledger, compressed with zstd or not, without locking or repairing it, also while a sweep writes: for
/// reports. (On Windows the writer's lock keeps readers out too: that is an [`LedgerError::Lines`].)
///
/// # Errors
/// [`LedgerError::NotALedger`], [`LedgerError::Schema`], [`LedgerError::Lines`].
pub fn read(path: &Path) -> Result<(Records, Vec<Notice>), LedgerError> {
    let fail = |doing| move |source| LinesError::Io { doing, path: path.to_path_buf(), source };
    let bytes = wgoose_files::read(path).map_err(fail("read"))?;
    let bytes = wgoose_files::unpacked(bytes).map_err(fail("decompress"))?;
    let Scan { records, notices, .. } = scan::scan(&bytes, path)?;
    Ok((records, notices))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    #[test]
    fn a_compressed_ledger_is_read_and_never_written() {
        let folder = tempfile::tempdir().unwrap();
        let [plain, packed] = ["ledger.jsonl", "ledger.jsonl.zst"].map(|name| folder.path().join(name));
        Ledger::open(&plain).unwrap().append(line::tests::plain()).unwrap();
        let bytes = compress_to_vec(&std::fs::read(&plain).unwrap()[..], CompressionLevel::Fastest);
        std::fs::write(&packed, &bytes).unwrap();
        assert_eq!(read(&packed).unwrap().0.as_slice(), read(&plain).unwrap().0.as_slice());
        assert!(matches!(Ledger::open(&packed), Err(LedgerError::NotALedger { .. })));
        // Cut short, or not JSON inside.
        std::fs::write(&packed, &bytes[..bytes.len() / 2]).unwrap();
        assert!(read(&packed).is_err());
    }
}
