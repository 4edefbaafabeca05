//! Temporary files: a list of ours, so that a signal can remove them, and the files of processes that were killed.
//!
//! A temporary file is locked while its process lives. One that can be locked belongs to none, and is removed when the next one is
//! made in that folder. (On Unix: elsewhere a lock would keep readers out too.)

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, PersistError};

const PREFIX: &str = ".wgoose-";
const SUFFIX: &str = ".part";

/// What this process knows of temporary files.
struct Known {
    /// Its own.
    unfinished: BTreeSet<PathBuf>,
    /// Folders that were looked through for those of others.
    swept: BTreeSet<PathBuf>,
}

static KNOWN: Mutex<Known> = Mutex::new(Known { unfinished: BTreeSet::new(), swept: BTreeSet::new() });

/// Removes every file of this process that has not got its name, for a process that is about to end: whichever thread wants to make
/// another one, or to give one its name, waits for ever.
pub fn remove_unfinished() {
    let known = KNOWN.lock();
    for path in &known.unfinished {
        // One that is gone is as good.
        let _ = std::fs::remove_file(path);
    }
    MutexGuard::leak(known);
}

/// A temporary file, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Temporary {
    // Before the entry: it is known until it is gone.
    file: NamedTempFile,
    entry: Entry,
}

/// That a file is known.
#[derive(Debug)]
struct Entry(PathBuf);

impl Drop for Entry {
    fn drop(&mut self) {
        KNOWN.lock().unfinished.remove(&self.0);
    }
}

impl Temporary {
    /// An empty one with that mode, as far as the user's mask lets it.
    pub(crate) fn in_folder(folder: &Path, mode: u32) -> io::Result<Self> {
        let mut known = KNOWN.lock();
        if known.swept.insert(folder.to_owned()) {
            sweep(folder, &known.unfinished);
        }
        loop {
            let file = create(folder, mode)?;
            if holds(file.as_file())? {
                let path = file.path().to_owned();
                known.unfinished.insert(path.clone());
                return Ok(Temporary { file, entry: Entry(path) });
            }
        }
    }

    /// The open file.
    pub(crate) fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Its name.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Gives it its name.
    pub(crate) fn persist(self, name: impl FnOnce(NamedTempFile) -> Result<File, PersistError>) -> io::Result<File> {
        let Temporary { file, entry } = self;
        let named = {
            let _known = KNOWN.lock();
            name(file)
        };
        drop(entry);
        Ok(named?)
    }
}

fn create(folder: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    #[cfg(unix)] // a temporary file is private by default, these are ordinary files
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    let _ = mode;
    builder.tempfile_in(folder)
}

/// Locks a new file; `false` if another process has taken it for one of the dead before.
#[cfg(unix)]
fn holds(file: &File) -> io::Result<bool> {
    // Where the system has no locks, nothing is taken for one of the dead either.
    if file.lock().is_err() {
        return Ok(true);
    }
    Ok(std::os::unix::fs::MetadataExt::nlink(&file.metadata()?) > 0)
}

#[cfg(not(unix))]
fn holds(_: &File) -> io::Result<bool> {
    Ok(true)
}

/// Removes what processes that are no more have left in a folder.
#[cfg(unix)]
fn sweep(folder: &Path, own: &BTreeSet<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
        let path = folder.join(&name);
        if !ours || own.contains(&path) {
            continue;
        }
        // What cannot be removed stays.
        if let Ok(file) = crate::open_here(std::fs::OpenOptions::new().read(true), &path)
            && file.try_lock().is_ok()
        {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(not(unix))]
fn sweep(_: &Path, _: &BTreeSet<PathBuf>) {}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn temporary_files_of_dead_processes_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| std::fs::write(folder.path().join(name), "part").unwrap();
        [".wgoose-stale1.part", ".wgoose-alive1.part", "model.part", ".wgoose-notes"].into_iter().for_each(write);
        std::os::unix::fs::symlink(folder.path().join("model.part"), folder.path().join(".wgoose-link01.part"))
            .unwrap();
        // As of a process that lives.
        let alive = File::open(folder.path().join(".wgoose-alive1.part")).unwrap();
        alive.lock().unwrap();
        drop(Temporary::in_folder(folder.path(), 0o666).unwrap());
        assert_eq!(names(folder.path()), [".wgoose-alive1.part", ".wgoose-link01.part", ".wgoose-notes", "model.part"]);
    }

    #[test]
    fn own_files_are_known_until_they_have_a_name_or_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let known = || KNOWN.lock().unfinished.iter().filter(|path| path.starts_with(folder.path())).count();
        let [named, dropped] = [(); 2].map(|()| Temporary::in_folder(folder.path(), 0o666).unwrap());
        assert_eq!(known(), 2);
        drop(dropped);
        assert_eq!(known(), 1);
        named.persist(|file| file.persist(folder.path().join("file"))).unwrap();
        assert_eq!((known(), names(folder.path())), (0, vec!["file".to_owned()]));
    }
}
