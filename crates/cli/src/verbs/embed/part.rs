//! A file that grows over several runs. It lies beside the one that it will be, as `NAME.KEY.part`; the key stands for model, options
//! and texts, so that nothing else is taken for it. Beside it, `NAME.KEY.part.sums` has a line for every batch: how many texts are
//! done, where they end, and the hash of all bytes up to there and of these two numbers. What a power cut or a bad disk has changed is computed again.

use crate::failure::Failure;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use wgoose_files::{is_at, open_here};

/// Bytes read at once.
const BUFFER: usize = 1 << 16;

/// An open one; it is locked.
pub(super) struct Part {
    path: PathBuf,
    part: PathBuf,
    sums: PathBuf,
    file: File,
    lines: File,
    /// Bytes for the file that are not there yet.
    pending: Vec<u8>,
    /// Of all bytes, those pending included.
    hasher: blake3::Hasher,
    len: u64,
}

/// What was sound at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Checkpoint {
    texts: usize,
    len: u64,
    hash: String,
}

impl FromStr for Checkpoint {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let [texts, len, hash] = line.split(' ').collect::<Vec<_>>().try_into().map_err(drop)?;
        let (texts, len) = (texts.parse().map_err(drop)?, len.parse().map_err(drop)?);
        Ok(Checkpoint { texts, len, hash: hash.to_owned() })
    }
}

impl Part {
    /// Opens the part of a file, or begins it; how many texts are in it.
    ///
    /// # Errors
    /// Another run is at it, or the system refuses.
    pub(super) fn open(path: &Path, key: &str) -> Result<(Self, usize), Failure> {
        let named = |end: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{key}.{end}"));
            PathBuf::from(name)
        };
        let (part, sums) = (named("part"), named("part.sums"));
        let mut file = locked(&part)?;
        let mut lines = grown(&sums).map_err(of(&sums))?;
        let (found, end, hasher) = sound(&mut file, &mut lines).map_err(of(&part))?;
        let (len, done) = found.map_or((0, 0), |found| (found.len, found.texts));
        let cut = |file: &mut File, end: u64| file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end)));
        cut(&mut file, len).map_err(of(&part))?;
        cut(&mut lines, end).map_err(of(&sums))?;
        Ok((Part { path: path.to_owned(), part, sums, file, lines, pending: Vec::new(), hasher, len }, done))
    }

    /// Whether nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends what `write` writes; it is there once it is a checkpoint.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        Ok(write(&mut self.pending).map_err(of(&self.part))?)
    }

    /// What was written is that of so many texts. It outlives this process.
    pub(super) fn checkpoint(&mut self, texts: usize) -> Result<(), Failure> {
        self.hasher.update(&self.pending);
        self.len += self.pending.len() as u64;
        self.file.write_all(&self.pending).map_err(of(&self.part))?;
        self.pending.clear();
        let line = format!("{texts} {} {}\n", self.len, hash(&self.hasher, texts, self.len));
        Ok(self.lines.write_all(line.as_bytes()).map_err(of(&self.sums))?)
    }

    /// Gives the whole file its name.
    pub(super) fn finish(self) -> Result<(), Failure> {
        wgoose_files::rename(&self.part, &self.path).map_err(of(&self.path))?;
        // It is of no use any more, and of no harm where it stays.
        let _ = std::fs::remove_file(&self.sums);
        Ok(())
    }
}

fn of(path: &Path) -> impl Fn(io::Error) -> String + '_ {
    move |e| format!("{}: {e}", path.display())
}

fn grown(path: &Path) -> io::Result<File> {
    open_here(OpenOptions::new().read(true).write(true).create(true).truncate(false), path)
}

/// Opens and locks a part.
fn locked(part: &Path) -> Result<File, String> {
    loop {
        let file = grown(part).map_err(of(part))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let busy = "another run writes the same embeddings: wait for it, or name another file";
                return Err(format!("{}: {busy}", part.display()));
            }
            Err(TryLockError::Error(why)) => return Err(of(part)(why)),
        }
        // Its run may have ended in between, and have given it its name.
        if is_at(&file, part).unwrap_or(false) {
            return Ok(file);
        }
    }
}

/// The hash of what was hashed, and of these numbers.
fn hash(bytes: &blake3::Hasher, texts: usize, len: u64) -> String {
    let mut hasher = bytes.clone();
    hasher.update(&(texts as u64).to_le_bytes());
    hasher.update(&len.to_le_bytes());
    hasher.finalize().to_hex().to_string()
}

/// The last checkpoint up to which all is sound, where its line ends, and the hasher there.
fn sound(file: &mut File, lines: &mut File) -> io::Result<(Option<Checkpoint>, u64, blake3::Hasher)> {
    let mut text = Vec::new();
    lines.read_to_end(&mut text)?;
    let (mut found, mut end, mut hasher) = (None, 0, blake3::Hasher::new());
    let (mut file, mut at) = (BufReader::with_capacity(BUFFER, file), 0);
    for line in text.split_inclusive(|b| *b == b'\n') {
        let line_end = line.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok()).map(str::parse);
        let Some(Ok(next)) = line_end else { break };
        let next: Checkpoint = next;
        let mut ahead = hasher.clone();
        let Some(left) = next.len.checked_sub(at) else { break };
        let read = io::copy(&mut (&mut file).take(left), &mut ahead)?;
        if read < left || hash(&ahead, next.texts, next.len) != next.hash {
            break;
        }
        (at, hasher, end) = (next.len, ahead, end + line.len() as u64);
        found = Some(next);
    }
    Ok((found, end, hasher))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "key";

    /// A part of three batches of two texts.
    fn grown_part(path: &Path) -> [PathBuf; 2] {
        let (mut part, done) = Part::open(path, KEY).unwrap();
        assert_eq!(done, 0);
        for batch in 1..=3 {
            part.write(|out| write!(out, "batch {batch};")).unwrap();
            part.checkpoint(2 * batch).unwrap();
        }
        part.write(|out| out.write_all(b"not flushed")).unwrap();
        [part.part, part.sums]
    }

    #[test]
    fn what_is_sound_is_taken_over_and_the_rest_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("e.npy");
        let [part, sums] = grown_part(&path);
        let whole = [&part, &sums].map(|path| std::fs::read(path).unwrap());
        assert_eq!(whole[0], b"batch 1;batch 2;batch 3;");
        for (which, len) in whole.iter().map(Vec::len).enumerate() {
            for at in 0..len {
                for cut in [false, true] {
                    let mut damaged = whole.clone();
                    if cut {
                        damaged[which].truncate(at);
                    } else {
                        damaged[which][at] ^= 1;
                    }
                    std::fs::write(&part, &damaged[0]).unwrap();
                    std::fs::write(&sums, &damaged[1]).unwrap();
                    let (mut again, done) = Part::open(&path, KEY).unwrap();
                    assert!(done < 6, "{which} {at} {cut}");
                    again.write(|out| out.write_all(b"new")).unwrap();
                    again.checkpoint(done + 1).unwrap();
                    drop(again);
                    let kept = &whole[0][..8 * done / 2];
                    assert_eq!(std::fs::read(&part).unwrap(), [kept, b"new"].concat(), "{which} {at} {cut}");
                    assert_eq!(Part::open(&path, KEY).unwrap().1, done + 1);
                }
            }
        }
        std::fs::write(&part, vec![0; 5000]).unwrap();
        assert_eq!(Part::open(&path, KEY).unwrap().1, 0, "as a power cut leaves it");
    }

    #[test]
    fn it_has_one_writer_and_then_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("e.npy");
        grown_part(&path);
        let (part, done) = Part::open(&path, KEY).unwrap();
        assert_eq!(done, 6);
        let busy = Part::open(&path, KEY).map(drop).unwrap_err().to_string();
        assert!(busy.contains("e.npy.key.part: another run"), "{busy}");
        Part::open(&path, "other").unwrap();
        part.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"batch 1;batch 2;batch 3;");
        assert!(!folder.path().join("e.npy.key.part.sums").exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("e.npy");
        let precious = folder.path().join("precious");
        std::fs::write(&precious, "gold").unwrap();
        std::os::unix::fs::symlink(&precious, folder.path().join("e.npy.key.part")).unwrap();
        let refused = Part::open(&path, KEY).map(drop).unwrap_err().to_string();
        assert!(refused.contains("e.npy.key.part: "), "{refused}");
        assert_eq!(std::fs::read(&precious).unwrap(), b"gold");
    }
}
