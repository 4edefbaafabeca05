//! Writes the file: pieces are made in parallel, written in order, and appear under the file's name when all are there.

use super::layout::{Layout, Tensor};
use super::{Progress, WriteError};
use rayon::prelude::*;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use wgoose_files::{Existing, NewFile};

/// Weights made at a time by one thread, give or take a row.
const PIECE: u32 = 1 << 18;

/// Pieces per thread between two writes: enough to keep all threads busy while they differ in speed.
const PIECES_PER_THREAD: usize = 4;

/// Some rows of a tensor.
struct Piece<'a> {
    tensor: &'a Tensor,
    rows: Range<u32>,
}

/// Whose rows are written.
pub(crate) trait Rows: Sync {
    /// What can go wrong with them, or with the file.
    type Error: From<WriteError> + Send;

    /// Fills `out` with the bytes of some of a tensor's rows, in its format, row major. `numbers` is room to work in.
    fn fill(
        &self,
        tensor: &Tensor,
        rows: Range<u32>,
        numbers: &mut Vec<f32>,
        out: &mut [u8],
    ) -> Result<(), Self::Error>;

    /// The last word on the complete file, which does not have its name yet.
    fn approve(&self, _written: &Path, _progress: &mut Progress<'_>) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Writes `header` and the tensors to a file beside `path`, then renames it. Where a file is to be kept, nothing is written.
pub(super) fn write<R: Rows>(
    rows: &R,
    layout: &Layout,
    header: &[u8],
    path: &Path,
    existing: Existing,
    progress: &mut Progress<'_>,
) -> Result<(), R::Error> {
    let failed = |doing| move |source| WriteError::Io { doing, path: path.to_owned(), source };
    let exists = || WriteError::Exists { path: path.to_owned() };
    // Before the long part; the rename below looks again.
    if existing == Existing::Keep && path.symlink_metadata().is_ok() {
        return Err(exists().into());
    }
    let mut new = NewFile::beside(path).map_err(failed("create a file for"))?;
    write_all(rows, layout, header, new.file(), &failed("write"), progress)?;
    new.file().sync_all().map_err(failed("write"))?;
    rows.approve(new.temporary_path(), progress)?;
    new.finish(existing).map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists if existing == Existing::Keep => exists(),
        _ => failed("rename the complete file to")(e),
    })?;
    Ok(())
}

fn write_all<R: Rows>(
    rows: &R,
    layout: &Layout,
    header: &[u8],
    out: &mut File,
    failed: &(dyn Fn(io::Error) -> WriteError + Sync),
    progress: &mut Progress<'_>,
) -> Result<(), R::Error> {
    let total = header.len() as u64 + layout.data_len;
    let mut done = 0;
    let mut ready = vec![header.to_vec()];
    let mut pieces = layout.tensors.iter().flat_map(pieces);
    let batch_len = PIECES_PER_THREAD * rayon::current_num_threads();
    // The disk works on one batch while the threads make the next.
    while !ready.is_empty() {
        let batch: Vec<Piece<'_>> = pieces.by_ref().take(batch_len).collect();
        let write = || -> Result<(), WriteError> {
            for bytes in &ready {
                out.write_all(bytes).map_err(failed)?;
                done += bytes.len() as u64;
            }
            Ok(())
        };
        let make = || batch.par_iter().map_init(Vec::new, |numbers, piece| bytes(rows, piece, numbers)).collect();
        let (written, next): (_, Result<Vec<Vec<u8>>, R::Error>) = rayon::join(write, make);
        written?;
        ready = next?;
        if progress(done, total).is_break() {
            return Err(WriteError::Stopped.into());
        }
    }
    Ok(())
}

fn pieces(tensor: &Tensor) -> impl Iterator<Item = Piece<'_>> {
    let step = (PIECE / tensor.cols).max(1);
    let starts = (0..tensor.rows).step_by(step as usize);
    starts.map(move |start| Piece { tensor, rows: start..(start + step).min(tensor.rows) })
}

/// The bytes of a piece, with the padding behind the tensor if it is the last.
fn bytes<R: Rows>(source: &R, piece: &Piece<'_>, numbers: &mut Vec<f32>) -> Result<Vec<u8>, R::Error> {
    let Piece { tensor, rows } = piece;
    let padding = if rows.end == tensor.rows { tensor.padding as usize } else { 0 };
    let len = rows.len() * tensor.row_bytes();
    let mut bytes = vec![0; len + padding];
    source.fill(tensor, rows.clone(), numbers, &mut bytes[..len])?;
    Ok(bytes)
}
