//! Files written whole or not at all.

use std::io::Write;
use std::path::Path;

/// Writes a file: a temporary one beside it, then a rename.
pub(crate) fn atomically(path: &Path, contents: &[u8]) -> Result<(), String> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let fail = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut temporary = tempfile::NamedTempFile::new_in(folder).map_err(fail)?;
    temporary.write_all(contents).map_err(fail)?;
    temporary.persist(path).map_err(|e| fail(e.error))?;
    Ok(())
}
