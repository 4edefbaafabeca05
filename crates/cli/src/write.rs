//! Files written whole or not at all.

use std::io::Write;
use std::path::Path;

/// Writes a file, whole or not at all; an error names it.
pub(crate) fn atomically(path: &Path, contents: &[u8]) -> Result<(), String> {
    let named = |e: std::io::Error| format!("{}: {e}", path.display());
    wgoose_files::replace(path, |file| file.write_all(contents)).map(drop).map_err(named)
}
