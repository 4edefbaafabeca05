//! Append-only files of lines. Each line is on disk before the call returns, and one process writes at a time.
//!
//! A writer that was killed in the middle of a line leaves a torn tail, which the next one moves to `NAME.torn`.

use crate::new::{folder, sync_folder};
use crate::ordinary::{is_at, open_here, open_with};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Why a file of lines cannot be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum LinesError {
    /// Another writer has it.
    #[error("'{}' is being written to, here or in another process: wait for it, or name another file", .0.display())]
    Locked(PathBuf),
    /// The system refuses.
    #[error("cannot {doing} '{}': {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn at<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> LinesError + 'a {
    move |source| LinesError::Io { doing, path: path.to_owned(), source }
}

/// A file of lines open for writing; the lock is held until it is dropped or its process ends, however it ends.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    file: File,
    /// Length of the acknowledged part of the file.
    end: u64,
    /// Whether bytes of a failed append may lie beyond `end`.
    dirty: bool,
}

impl Lines {
    /// Opens a file, or makes one, parent folders included; returns what it holds, too. Whether it ends with a torn line is for the caller to see and to say
    /// ([`Lines::end_line`], [`Lines::set_aside`]) before anything is appended.
    ///
    /// # Errors
    /// Another writer has it, or the system refuses.
    pub fn open(path: &Path) -> Result<(Self, Vec<u8>), LinesError> {
        let beside = folder(path);
        std::fs::create_dir_all(beside).map_err(at("create", beside))?;
        // Not `append`: on Windows that withholds the right to shorten the file. The lock makes the position ours.
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = loop {
            let file = open_with(&mut options, path).map_err(at("open", path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(LinesError::Locked(path.to_owned())),
                Err(TryLockError::Error(source)) => return Err(at("lock", path)(source)),
            }
            if is_at(&file, path).map_err(at("open", path))? {
                break file;
            }
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(at("read", path))?;
        if bytes.is_empty() {
            sync_folder(beside).map_err(at("sync", beside))?;
        }
        let end = bytes.len() as u64;
        Ok((Lines { path: path.to_owned(), file, end, dirty: false }, bytes))
    }

    /// Appends a line; returns once it is on disk. What a failed append has left is cleared by the next one.
    ///
    /// # Errors
    /// The disk is full or gone.
    pub fn append(&mut self, line: &str) -> Result<(), LinesError> {
        self.extend(format!("{line}\n").as_bytes())
    }

    /// Ends a last line that lacks nothing else.
    ///
    /// # Errors
    /// The disk is full or gone.
    pub fn end_line(&mut self) -> Result<(), LinesError> {
        self.extend(b"\n")
    }

    /// Moves what lies from byte `from` on, a piece of a line, to `NAME.torn`; returns that name. The copy is synced before the original goes.
    ///
    /// # Errors
    /// One of the files cannot be written.
    pub fn set_aside(&mut self, from: u64) -> Result<PathBuf, LinesError> {
        let mut name = self.path.clone().into_os_string();
        name.push(".torn");
        let aside = PathBuf::from(name);
        let mut keep = || {
            self.file.seek(SeekFrom::Start(from))?;
            let mut torn = Vec::new();
            self.file.read_to_end(&mut torn)?;
            torn.push(b'\n');
            let mut file = open_here(OpenOptions::new().create(true).append(true), &aside)?;
            file.write_all(&torn)?;
            file.sync_data()
        };
        keep().map_err(at("write", &aside))?;
        self.end = from;
        self.file.set_len(from).and_then(|()| self.file.sync_data()).map_err(at("shorten", &self.path))?;
        Ok(aside)
    }

    /// One write, then a sync.
    fn extend(&mut self, bytes: &[u8]) -> Result<(), LinesError> {
        let mut write = || {
            if self.dirty {
                self.file.set_len(self.end)?;
            }
            self.file.seek(SeekFrom::Start(self.end))?;
            self.dirty = true;
            self.file.write_all(bytes)?;
            self.file.sync_data()
        };
        write().map_err(at("append to", &self.path))?;
        self.dirty = false;
        self.end += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_and_have_one_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/lines.jsonl");
        let (mut lines, bytes) = Lines::open(&path).unwrap();
        assert_eq!(bytes, b"");
        lines.append("one").unwrap();
        assert!(matches!(Lines::open(&path), Err(LinesError::Locked(_))));
        // As after a full disk.
        lines.file.write_all(&[b'x'; 1000]).unwrap();
        lines.dirty = true;
        lines.append("two").unwrap();
        drop(lines);
        assert_eq!(std::fs::read(&path).unwrap(), b"one\ntwo\n");
    }

    #[test]
    fn a_torn_piece_is_kept_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        std::fs::write(&path, "one\ntw").unwrap();
        let (mut lines, bytes) = Lines::open(&path).unwrap();
        assert_eq!(bytes, b"one\ntw");
        let aside = lines.set_aside(4).unwrap();
        lines.append("three").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one\nthree\n");
        assert_eq!(std::fs::read(aside).unwrap(), b"tw\n");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_of_another_user_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let precious = folder.path().join("precious");
        std::fs::write(&precious, "gold\n").unwrap();
        std::os::unix::fs::symlink(&precious, folder.path().join("lines.torn")).unwrap();
        std::fs::write(&path, "tw").unwrap();
        let mut lines = Lines::open(&path).unwrap().0;
        assert!(matches!(lines.set_aside(0), Err(LinesError::Io { doing: "write", .. })));
        assert_eq!(std::fs::read(&precious).unwrap(), b"gold\n");
    }
}
