//! The files of a model as one range of bytes, one file behind the other. A *place* counts from the start of the first
//! file; no tensor reaches from one file into the next.

use crate::error::LoadError;
use crate::file::ModelFile;
use crate::read_at::ReadAt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Open files; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ModelFiles {
    /// What was named: a file, or a folder.
    path: PathBuf,
    files: Arc<[PlacedFile]>,
    len: usize,
    /// Where all places are read from instead of the files.
    reader: Option<Arc<dyn ReadAt>>,
}

/// A file and the place of its first byte.
#[derive(Debug)]
pub(crate) struct PlacedFile {
    pub(crate) base: usize,
    pub(crate) file: ModelFile,
}

impl PlacedFile {
    /// The place behind its last byte.
    fn end(&self) -> usize {
        self.base + self.file.bytes().len()
    }
}

impl ModelFiles {
    /// Opens regular files, of which there is at least one. Nothing is read yet.
    pub(crate) fn open(path: &Path, paths: &[PathBuf]) -> Result<Self, LoadError> {
        let mut files = Vec::with_capacity(paths.len());
        let mut len = 0_usize;
        for path in paths {
            let file = ModelFile::open(path)?;
            let too_large = || LoadError::Io { path: path.clone(), source: io::ErrorKind::FileTooLarge.into() };
            let end = len.checked_add(file.bytes().len()).ok_or_else(too_large)?;
            files.push(PlacedFile { base: len, file });
            len = end;
        }
        Ok(ModelFiles { path: path.to_owned(), files: files.into(), len, reader: None })
    }

    /// The path, as given to [`ModelFiles::open`].
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes of the first file, through the map.
    pub(crate) fn first(&self) -> &[u8] {
        self.files[0].file.bytes()
    }

    /// All files, in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PlacedFile> {
        self.files.iter()
    }

    /// Bytes of all files when they were opened.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The file with that place, and the place's offset in it.
    pub(crate) fn locate(&self, place: usize) -> (&ModelFile, usize) {
        let after = self.files.partition_point(|placed| placed.base <= place);
        let placed = &self.files[after.saturating_sub(1)];
        (&placed.file, place - placed.base)
    }

    /// A range of one file, through the map.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        let (file, start) = self.locate(range.start);
        &file.bytes()[start..start + range.len()]
    }

    /// Reads all places from `reader` instead of the files.
    pub(crate) fn set_reader(&mut self, reader: Arc<dyn ReadAt>) {
        self.reader = Some(reader);
    }

    /// Fills `out` with a range of exactly its length, by position.
    pub(crate) fn read(&self, range: Range<usize>, out: &mut [u8]) -> Result<(), LoadError> {
        let mut rest = out;
        for (placed, inside) in self.parts(range) {
            let (part, others) = rest.split_at_mut(inside.len());
            rest = others;
            let offset = inside.start as u64;
            match &self.reader {
                None => placed.file.read(offset, part)?,
                Some(reader) => reader
                    .read_exact_at(part, placed.base as u64 + offset)
                    .map_err(|source| placed.file.read_failed(offset, source))?,
            }
        }
        Ok(())
    }

    /// Whether every file is as it was at opening: see [`ModelFile::check_unchanged`].
    pub(crate) fn check_unchanged(&self) -> Result<(), LoadError> {
        self.files.iter().try_for_each(|placed| placed.file.check_unchanged())
    }

    /// Hints that a range, which may reach past the last file, will soon be read.
    pub(crate) fn will_need(&self, range: Range<usize>) {
        self.parts(range).for_each(|(placed, inside)| placed.file.will_need(inside));
    }

    /// Hints that a range was read through the map for the last time in a while.
    pub(crate) fn release(&self, range: Range<usize>) {
        self.parts(range).for_each(|(placed, inside)| placed.file.release(inside));
    }

    /// The error, of the file that it is about: its place becomes an offset there.
    pub(crate) fn name_file(&self, mut why: LoadError) -> LoadError {
        let path = match &mut why {
            LoadError::WrongShape { offset, .. } | LoadError::QuantisedVector { offset, .. } => {
                let (file, inside) = self.locate(*offset);
                *offset = inside;
                file.path()
            }
            _ => &self.path,
        };
        why.of_file(path)
    }

    /// The files that a range reaches into, and which of their bytes are in it.
    fn parts(&self, range: Range<usize>) -> impl Iterator<Item = (&PlacedFile, Range<usize>)> {
        self.files.iter().filter_map(move |placed| {
            let start = range.start.max(placed.base);
            let end = range.end.min(placed.end());
            (start < end).then(|| (placed, start - placed.base..end - placed.base))
        })
    }
}
