//! Files that are written whole or not at all, lines that are appended whole, and files that are opened only if they are files.

#![deny(missing_docs)]

mod lines;
mod new;
mod ordinary;
mod own;
mod temporary;

pub use lines::{Lines, LinesError};
pub use new::{Existing, NewFile, rename, replace};
pub use ordinary::{is_at, open, open_here, open_with, read, read_all, read_to_string};
pub use own::read_own;
pub use temporary::remove_unfinished;
