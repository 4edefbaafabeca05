//! Files that are written whole or not at all, lines that are appended whole, files that are opened only if they are
//! files, compressed records, texts in UTF-8 whatever they are stored in, and the folders of a user's files.

#![deny(missing_docs)]

mod lines;
mod new;
mod ordinary;
mod own;
mod packed;
mod temporary;
mod text;
mod user_folders;

pub use lines::{Lines, LinesError};
pub use new::{Existing, NewFile, replace};
pub use ordinary::{is_at, open, open_here, open_with, read, read_all, read_to_string};
pub use own::read_own;
pub use packed::{read_unpacked, unpacked};
pub use temporary::remove_unfinished;
pub use text::{Text, as_utf8, open_text, read_text};
pub use user_folders::{default_cache_dir, default_data_dir};
