//! How does a program read and write files without half of one ever being seen?
//!
//! ```
//! use std::io::Write;
//!
//! # let folder = tempfile::tempdir()?;
//! let path = folder.path().join("notes.txt");
//! // The new content appears as a whole, or the old content stays.
//! wgoose_files::replace(&path, |file| file.write_all(b"a goose"))?;
//! assert_eq!(wgoose_files::read_to_string(&path)?, "a goose");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! In reading order: `new` writes files whole or not at all, `temporary` removes unfinished ones, `lines` appends whole
//! lines ([`Lines`]), `ordinary` opens regular files only, `packed` reads records compressed with zstd, `own` files
//! that no other user can have written, `text` decodes texts to UTF-8, and `user_folders` names the folders for a
//! user's files.

#![deny(missing_docs)]

mod lines;
mod new;
mod ordinary;
mod own;
#[cfg(feature = "packed")]
mod packed;
mod temporary;
mod text;
#[cfg(feature = "user-folders")]
mod user_folders;

pub use lines::{Lines, LinesError};
pub use new::{Existing, NewFile, replace};
pub use ordinary::{is_at, open, open_here, open_with, read, read_all, read_to_string};
pub use own::read_own;
#[cfg(feature = "packed")]
pub use packed::{read_unpacked, unpacked};
pub use temporary::remove_unfinished;
pub use text::{Text, as_utf8, open_text, read_text};
#[cfg(feature = "user-folders")]
pub use user_folders::{default_cache_dir, default_data_dir};

/// The page's programs, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
