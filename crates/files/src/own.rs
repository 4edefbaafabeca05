//! Files that nobody else can have written: for what is handed on without being understood, such as compiled kernels for a driver.
//! A checksum says that nothing has changed by accident; who wrote it is known by the system alone.

use std::io;
use std::path::Path;

/// The content of a regular file that belongs to this user, or to root, and that no other may write. (On Unix: elsewhere the user's
/// folders are the user's.)
///
/// # Errors
/// There is none, it cannot be read, or another user can have written it ([`io::ErrorKind::PermissionDenied`]).
pub fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = crate::open_here(std::fs::OpenOptions::new().read(true), path)?;
    let metadata = file.metadata()?;
    if !is_own(&metadata) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user can have written it"));
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    io::Read::read_to_end(&mut file, &mut bytes)?;
    Ok(bytes)
}

#[cfg(unix)]
fn is_own(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    use std::sync::LazyLock;
    // As the system sees it: a file that is made now belongs to this user.
    static USER: LazyLock<Option<u32>> = LazyLock::new(|| Some(tempfile::tempfile().ok()?.metadata().ok()?.uid()));
    let owner = metadata.uid();
    (owner == 0 || *USER == Some(owner)) && metadata.mode() & 0o022 == 0
}

#[cfg(not(unix))]
fn is_own(_: &std::fs::Metadata) -> bool {
    true
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Existing, NewFile};
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn files_that_others_may_write_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [own, link] = ["own", "link"].map(|name| folder.path().join(name));
        let mut new = NewFile::own_beside(&own).unwrap();
        new.write_all(b"a goose").unwrap();
        new.finish(Existing::Keep).unwrap();
        assert_eq!(read_own(&own).unwrap(), b"a goose");
        symlink(&own, &link).unwrap();
        assert!(read_own(&link).is_err());
        for (mode, is_fine) in [(0o666, false), (0o664, false), (0o600, true)] {
            std::fs::set_permissions(&own, PermissionsExt::from_mode(mode)).unwrap();
            let read = read_own(&own).map(drop).map_err(|e| e.kind());
            assert_eq!(read, if is_fine { Ok(()) } else { Err(io::ErrorKind::PermissionDenied) }, "{mode:o}");
        }
        // Only root can give files away.
        if chown(&own, Some(4711), None).is_ok() {
            assert_eq!(read_own(&own).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
    }
}
