//! Reading a ledger's bytes: what is sound, what is damaged, what is torn.

use super::error::{LedgerError, LineError, OPENING};
use super::line::decode;
use super::records::Records;
use std::path::Path;

/// Something amiss in a ledger; nothing of it is lost.
#[derive(Debug, thiserror::Error)]
pub enum Notice {
    /// A whole line cannot be read. It stays in the file, and counts for nothing.
    #[error("line {line} (byte {byte}) is skipped: {reason}")]
    Skipped {
        /// Line, from 1.
        line: usize,
        /// Offset of its first byte in the file.
        byte: u64,
        /// Why.
        reason: LineError,
    },
    /// The file ends in the middle of a line: its writer was killed. A writer moves the piece to `<ledger>.torn`.
    #[error("line {line} (byte {byte}) was never finished: {bytes} bytes are set aside")]
    Torn {
        /// Line, from 1.
        line: usize,
        /// Offset of its first byte in the file.
        byte: u64,
        /// Length of the piece.
        bytes: usize,
    },
}

impl Notice {
    /// The schema of a line that is skipped for it.
    fn foreign_schema(&self) -> Option<u32> {
        match self {
            Notice::Skipped { reason: LineError::Schema { found }, .. } => Some(*found),
            Notice::Skipped { .. } | Notice::Torn { .. } => None,
        }
    }
}

/// How a file ends.
pub(super) enum Tail {
    /// With a line's end, or empty.
    Clean,
    /// With a whole record (it is among the records) that lacks nothing but its line's end.
    Unended,
    /// In the middle of a line.
    Torn,
}

/// The content of a ledger.
pub(super) struct Scan {
    pub(super) records: Records,
    pub(super) notices: Vec<Notice>,
    pub(super) tail: Tail,
    /// Length of the part that stays; a torn piece begins here.
    pub(super) end: u64,
}

/// Reads the bytes of the file at `path`. They are refused where they are not a ledger's (not even the beginning of
/// one), and where nothing of them is of this schema.
pub(super) fn scan(bytes: &[u8], path: &Path) -> Result<Scan, LedgerError> {
    let opening = OPENING.as_bytes();
    let seen = bytes.len().min(opening.len());
    if bytes[..seen] != opening[..seen] {
        return Err(LedgerError::NotALedger { path: path.to_path_buf() });
    }

    let mut scan =
        Scan { records: Records::default(), notices: Vec::new(), tail: Tail::Clean, end: bytes.len() as u64 };
    let mut byte = 0;
    for (index, piece) in bytes.split_inclusive(|&b| b == b'\n').enumerate() {
        let line = index + 1;
        if let Some(text) = piece.strip_suffix(b"\n") {
            match decode(text) {
                Ok(entry) => {
                    scan.records.push(entry);
                }
                Err(reason) => scan.notices.push(Notice::Skipped { line, byte, reason }),
            }
        } else if let Ok(entry) = decode(piece) {
            scan.records.push(entry);
            scan.tail = Tail::Unended;
        } else {
            scan.notices.push(Notice::Torn { line, byte, bytes: piece.len() });
            (scan.tail, scan.end) = (Tail::Torn, byte);
        }
        byte += piece.len() as u64;
    }
    match scan.notices.iter().find_map(Notice::foreign_schema) {
        Some(found) if scan.records.as_slice().is_empty() => {
            Err(LedgerError::Schema { path: path.to_path_buf(), found })
        }
        _ => Ok(scan),
    }
}
