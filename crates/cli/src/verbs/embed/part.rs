//! The embeddings of an unfinished run: a store next to its output file, `NAME.KEY.part`. The key identifies model,
//! options and texts. A run that was interrupted or killed, started again, reuses the store, and removes it once the
//! output file is whole.

use crate::failure::Failure;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use wgoose_session::{EmbeddingCacheOptions, Session};

/// The store of a run; the session has it open, and locked.
pub(super) struct Part(PathBuf);

impl Part {
    /// Has a session keep its embeddings in the store of a run that writes `path`, and use those that are in it.
    ///
    /// # Errors
    /// Another run has it open, or the system refuses.
    pub(super) fn attach(session: &mut Session, path: &Path, key: &str) -> Result<Self, Failure> {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{key}.part"));
        let part = PathBuf::from(name);
        made_here(&part).map_err(|e| format!("{}: {e}", part.display()))?;
        session.keep_embeddings(&EmbeddingCacheOptions { store: Some(part.clone()), ..Default::default() })?;
        Ok(Part(part))
    }

    /// Removes the store: the file is whole.
    pub(super) fn remove(self) {
        // A store that stays is of no use any more, and of no harm.
        let _ = std::fs::remove_file(self.0);
    }
}

/// Others can guess the name: the file is not made through a link that they put there.
fn made_here(part: &Path) -> io::Result<()> {
    wgoose_files::open_here(OpenOptions::new().read(true).write(true).create(true).truncate(false), part).map(drop)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let [precious, part] = ["precious", "e.npy.key.part"].map(|name| folder.path().join(name));
        for is_there in [false, true] {
            if is_there {
                std::fs::write(&precious, "gold").unwrap();
            } else {
                std::os::unix::fs::symlink(&precious, &part).unwrap();
            }
            made_here(&part).unwrap_err();
            assert_eq!(precious.exists(), is_there);
        }
        assert_eq!(std::fs::read(&precious).unwrap(), b"gold");
    }
}
