//! Why a ledger, or a line of one, cannot be read or written.

use std::fmt;
use std::path::PathBuf;
use wgoose_files::LinesError;

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
    /// Every line that can be told is of another version of the program. The file was not touched.
    #[error(
        "{} has ledger schema {found}, this program reads {SCHEMA}: name another ledger, or use the version that wrote it",
        path.display()
    )]
    Schema {
        /// The ledger.
        path: PathBuf,
        /// The schema of its first such line.
        found: u32,
    },
    /// The record was refused before anything was written.
    #[error("the record cannot be written: {0}")]
    Record(#[from] LineError),
    /// The file system said no.
    #[error(transparent)]
    Lines(LinesError),
}

impl From<LinesError> for LedgerError {
    fn from(error: LinesError) -> Self {
        match error {
            LinesError::Locked(path) => LedgerError::Locked { path },
            other => LedgerError::Lines(other),
        }
    }
}

/// The version of the record's layout: this build writes and reads no other.
pub(super) const SCHEMA: u32 = 1;

/// How every line, and therefore every ledger, begins.
pub(super) const OPENING: &str = "{\"schema\":";

/// Why a line cannot be read, or a record cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The line does not begin as every line does.
    #[error("it does not begin with {Head}")]
    Head,
    /// Written by another version of the program.
    #[error("its schema is {found}, this program reads {SCHEMA}: use the version that wrote it")]
    Schema {
        /// The schema it names.
        found: u32,
    },
    /// Bytes have changed since it was written.
    #[error("its content does not match its id {id}: it was damaged or edited")]
    Damaged {
        /// The id it names.
        id: String,
    },
    /// It is not JSON of the right shape.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// Its key is not that of its identity.
    #[error("its key {key} is not that of its identity")]
    Key {
        /// The key it names.
        key: String,
    },
    /// JSON has no word for it.
    #[error("`{field}` holds {value}, which is not a finite number")]
    NotFinite {
        /// The field.
        field: &'static str,
        /// Its value.
        value: f64,
    },
}

/// The line's opening, for messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head;

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OPENING}{SCHEMA},\"id\":\"")
    }
}
