//! New files.

use crate::temporary::Temporary;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Writes a file under a temporary name beside `path`, then gives it the name: others see what was there before or all
/// of the new file, and so does who comes after a crash. Returns the file, still open.
///
/// # Errors
/// The folder does not exist or cannot be written, the disk is full, or `write` fails: then nothing has changed.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<File> {
    let mut new = NewFile::beside(path)?;
    write(new.file())?;
    new.finish(Existing::Replace)
}

/// What becomes of a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is replaced.
    Replace,
    /// It stays; the new file is removed.
    Keep,
}

/// A file under a temporary name beside the path that it will have. It is removed unless it is finished: also by
/// [`remove_unfinished`](crate::remove_unfinished), and by the next process that writes to the folder where this one is killed.
#[derive(Debug)]
pub struct NewFile {
    file: Temporary,
    path: PathBuf,
}

impl io::Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

impl NewFile {
    /// An empty file.
    ///
    /// # Errors
    /// The folder does not exist or cannot be written.
    pub fn beside(path: &Path) -> io::Result<Self> {
        NewFile::with_mode(path, 0o666)
    }

    /// An empty file that no other user will be able to write, for [`read_own`](crate::read_own).
    ///
    /// # Errors
    /// The folder does not exist or cannot be written.
    pub fn own_beside(path: &Path) -> io::Result<Self> {
        NewFile::with_mode(path, 0o644)
    }

    fn with_mode(path: &Path, mode: u32) -> io::Result<Self> {
        Ok(NewFile { file: Temporary::in_folder(folder(path), mode)?, path: path.to_owned() })
    }

    /// The open file.
    pub fn file(&mut self) -> &mut File {
        self.file.file()
    }

    /// Its temporary name.
    pub fn temporary_path(&self) -> &Path {
        self.file.path()
    }

    /// Gives it its name, in place of what has it, and makes nothing durable: for caches whose entries are checked when
    /// they are read. Others see the old file or the new one; after a crash it may be cut.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn finish_unsynced(self) -> io::Result<()> {
        self.file.persist(|file| file.persist(&self.path)).map(drop)
    }

    /// Gives it its name and makes both durable. Returns the file, still open (and, on Unix, locked).
    ///
    /// # Errors
    /// It cannot be synced or renamed, or there is a file to keep: `AlreadyExists`.
    pub fn finish(mut self, existing: Existing) -> io::Result<File> {
        self.file().sync_all()?;
        let file = self.file.persist(|file| match existing {
            Existing::Replace => file.persist(&self.path),
            Existing::Keep => file.persist_noclobber(&self.path),
        })?;
        sync_folder(folder(&self.path))?;
        Ok(file)
    }
}

pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a new name survive a crash.
#[cfg(unix)]
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Elsewhere folders cannot be opened, and renaming is durable without.
#[cfg(not(unix))]
pub(crate) fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_failed_replacement_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        replace(&path, |file| file.write_all(b"one")).unwrap();
        let failed = replace(&path, |file| {
            file.write_all(b"tw")?;
            Err(io::Error::other("no"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "no");
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        replace(&path, |file| file.write_all(b"three")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"three");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
        assert!(replace(&folder.path().join("no/a.json"), |_| Ok(())).is_err());
    }

    #[test]
    fn a_file_that_is_there_is_kept_if_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        for (text, is_first) in [("one", true), ("two", false)] {
            let mut new = NewFile::beside(&path).unwrap();
            new.file().write_all(text.as_bytes()).unwrap();
            assert_eq!(std::fs::read(new.temporary_path()).unwrap(), text.as_bytes());
            let kind = new.finish(Existing::Keep).map(drop).map_err(|e| e.kind());
            assert_eq!(kind, if is_first { Ok(()) } else { Err(io::ErrorKind::AlreadyExists) });
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        drop(NewFile::beside(&path).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[cfg(unix)]
    #[test]
    fn a_replaced_file_has_the_usual_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
        replace(&ours, |_| Ok(())).unwrap();
        std::fs::write(&plain, b"").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
    }
}
