//! Errors of the store.

use std::path::PathBuf;
use wgoose_kernels::PlanError;

/// What can go wrong with the store, or with a name.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or folder cannot be read, written or removed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file that is no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The user has no data folder.
    #[error("there is no folder for your data: set WGOOSE_DATA_DIR, or name a file")]
    NoFolder,
    /// No plan has such a name.
    #[error("no plan is called '{0}': `wgoose plans` lists those that there are")]
    Unknown(String),
    /// Several plans have that in their names.
    #[error("'{part}' is in the names of several plans: {names}")]
    Ambiguous {
        /// What was asked for.
        part: String,
        /// The names.
        names: String,
    },
    /// A plan that ships in the program.
    #[error("{0} ships in the program and cannot be removed; --plan default runs without it")]
    Shipped(String),
    /// A file outside the store.
    #[error("{} is not in the store: remove the file yourself", .0.display())]
    Outside(PathBuf),
}
