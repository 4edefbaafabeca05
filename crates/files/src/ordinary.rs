//! Opening files that must be regular files. A FIFO would wait for a writer, a device would have side effects, a folder
//! cannot be read: they are refused. The check looks at the opened file, so that nothing can take its place in between.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file for reading, at once whatever has the name.
///
/// # Errors
/// There is none, it cannot be opened, or it is no regular file ([`io::ErrorKind::InvalidInput`]).
pub fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path)
}

/// As [`open`], with options.
///
/// # Errors
/// As [`open`].
pub fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    open_as(options, path, 0)
}

/// As [`open_with`], but not through a symbolic link that has the name: for names that others can guess
/// in a folder where others can write.
///
/// # Errors
/// As [`open`], and where the name is a symbolic link.
pub fn open_here(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    let here = libc::O_NOFOLLOW;
    #[cfg(not(unix))]
    let here = 0;
    open_as(options, path, here)
}

fn open_as(options: &mut OpenOptions, path: &Path, flags: i32) -> io::Result<File> {
    // Neither changes anything about a regular file.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags | libc::O_NONBLOCK | libc::O_NOCTTY);
    let _ = flags;
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
    match options.open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Ok(_) => Err(no_file()),
        // What cannot be opened at all, such as a socket or a folder to write to.
        Err(_) if path.symlink_metadata().is_ok_and(|named| !named.is_file() && !named.is_symlink()) => Err(no_file()),
        Err(error) => Err(error),
    }
}

/// Most bytes of what is read as a whole: far beyond any state, ledger or reference, and no danger to the memory.
const MOST: u64 = 256 << 20;

/// The content of a regular file, of at most 256 MiB.
///
/// # Errors
/// As [`open`], or it cannot be read ([`io::ErrorKind::FileTooLarge`] where it is larger).
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let len = file.metadata()?.len();
    if len > MOST {
        return Err(too_large());
    }
    read_all(file, len as usize)
}

/// All that a reader gives, at most 256 MiB; `expected` are made room for at once.
///
/// # Errors
/// It cannot be read, or gives more ([`io::ErrorKind::FileTooLarge`]).
pub fn read_all(reader: impl Read, expected: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(expected);
    reader.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST { Err(too_large()) } else { Ok(bytes) }
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {} MiB", MOST >> 20))
}

/// The text of a regular file.
///
/// # Errors
/// As [`read`]; [`io::ErrorKind::InvalidData`] where it is no UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Whether a path still leads to this open file.
///
/// # Errors
/// The system does not answer, or nothing has that name.
#[cfg(unix)]
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let (open, named) = (file.metadata()?, path.metadata()?);
    Ok((open.dev(), open.ino()) == (named.dev(), named.ino()))
}

/// Whether a path still leads to this open file: where there are no Unix files, one that is open is not replaced.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn is_at(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_too_large_for_the_memory_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 40).unwrap();
        assert_eq!(read(file.path()).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        // As what is compressed may be, which does not say how large it is.
        assert_eq!(read_all(io::repeat(0), 0).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_all(&b"a goose"[..], 7).unwrap(), b"a goose");
    }

    #[test]
    fn irregular_files_are_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, fifo] = ["file", "link", "fifo"].map(|name| folder.path().join(name));
        std::fs::write(&file, "a goose").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        for path in [&file, &link] {
            assert_eq!(read_to_string(path).unwrap(), "a goose");
            assert_eq!(read(path).unwrap(), b"a goose");
        }
        for path in [&fifo, folder.path(), Path::new("/dev/null"), Path::new("/dev/zero")] {
            assert_eq!(read(path).unwrap_err().to_string(), "not a regular file", "{}", path.display());
            let mut options = OpenOptions::new();
            let written = open_here(options.read(true).write(true).create(true), path);
            assert_eq!(written.unwrap_err().to_string(), "not a regular file", "{}", path.display());
        }
        assert_eq!(open(&folder.path().join("no")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(open_here(OpenOptions::new().append(true), &link).is_err(), "through a link");
        open_here(OpenOptions::new().append(true), &file).unwrap();
    }
}
