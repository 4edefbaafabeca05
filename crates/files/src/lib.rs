//! Files that are written whole or not at all.

#![deny(missing_docs)]

use std::fs::File;
use std::io;
use std::path::Path;

/// Writes a file under a temporary name beside `path`, then gives it the name: others see what was there before or all of
/// the new file, and so does who comes after a crash. Returns the file, still open.
///
/// # Errors
/// The folder does not exist or cannot be written, the disk is full, or `write` fails: then nothing has changed.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<File> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".wgoose-").suffix(".part");
    #[cfg(unix)] // a temporary file is private by default, these are ordinary files
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder)?;
    write(file.as_file_mut())?;
    file.as_file().sync_all()?;
    let file = file.persist(path)?;
    // Elsewhere folders cannot be opened, and renaming is durable without.
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_whole_or_as_it_was() {
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

    #[cfg(unix)]
    #[test]
    fn others_may_read_it_as_any_other_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
        replace(&ours, |_| Ok(())).unwrap();
        std::fs::write(&plain, b"").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
    }
}
