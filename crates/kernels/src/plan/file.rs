//! The text of a plan's file, which may be any file.

use super::PlanError;
use std::fs::{File, metadata};
use std::io::Read;
use std::path::Path;

/// Largest file that is read.
const MOST_BYTES: u64 = 4 << 20;

/// Reads a plan's file.
///
/// # Errors
/// It cannot be read, or is none that a plan is in.
pub(super) fn text(path: &Path) -> Result<String, PlanError> {
    let io = |source| PlanError::Io { path: path.to_owned(), source };
    let wrong = |why| PlanError::File { path: path.to_owned(), why };
    // Asked before it is opened: a pipe would be waited for.
    if !metadata(path).map_err(io)?.is_file() {
        return Err(wrong("it is no ordinary file"));
    }
    let (mut text, file) = (String::new(), File::open(path).map_err(io)?);
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(io)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(wrong("it is larger than 4 MiB: no plan is"));
    }
    Ok(text)
}
