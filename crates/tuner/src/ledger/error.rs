//! Why a ledger cannot be opened or written.

use super::line::LineError;
use std::io;
use std::path::{Path, PathBuf};

/// A ledger that cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Another process, or another handle of this one, is writing it.
    #[error("{} is in use by another sweep: wait for it, stop it, or name another ledger", path.display())]
    Locked {
        /// The ledger.
        path: PathBuf,
    },
    /// The file begins with something no ledger begins with. It was not touched.
    #[error("{} is not a ledger: name another file", path.display())]
    NotALedger {
        /// The file.
        path: PathBuf,
    },
    /// The record was refused before anything was written.
    #[error("the record cannot be written: {0}")]
    Record(#[from] LineError),
    /// The file system said no.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Says what was tried and where, for `map_err`.
pub(super) fn at<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> LedgerError + 'a {
    move |source| LedgerError::Io { action, path: path.to_path_buf(), source }
}
