//! Writes the file: pieces are made in parallel, written in order, and appear under the file's name when all are there.

use super::layout::{Layout, Tensor};
use super::{SynthError, SynthOptions, law::Source};
use crate::blocks;
use rayon::prelude::*;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

/// Weights made at a time by one thread, give or take a row.
const PIECE: u32 = 1 << 18;

/// Pieces per thread between two writes: enough to keep all threads busy while they differ in speed.
const PIECES_PER_THREAD: usize = 4;

/// Some rows of a tensor.
struct Piece<'a> {
    tensor: &'a Tensor,
    rows: Range<u32>,
}

/// Writes `header` and the tensors to a file beside `path`, then renames it.
pub(super) fn write(
    options: &SynthOptions,
    layout: &Layout,
    header: &[u8],
    path: &Path,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<(), SynthError> {
    let failed = |doing| move |source| SynthError::Io { doing, path: path.to_owned(), source };
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".synth-").suffix(".part");
    #[cfg(unix)] // a temporary file is private by default, a model is an ordinary file
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder).map_err(failed("create a file for"))?;

    let out = file.as_file_mut();
    write_all(options, layout, header, out, progress).and_then(|()| out.sync_all()).map_err(failed("write"))?;
    file.persist(path).map_err(|e| failed("rename the complete file to")(e.error))?;
    sync_folder(folder).map_err(failed("make durable"))
}

/// Makes the new name survive a crash.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Elsewhere folders cannot be opened, and renaming is durable without.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

fn write_all(
    options: &SynthOptions,
    layout: &Layout,
    header: &[u8],
    out: &mut File,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> io::Result<()> {
    let total = header.len() as u64 + layout.data_len;
    let mut done = 0;
    let mut ready = vec![header.to_vec()];
    let mut pieces = layout.tensors.iter().flat_map(pieces);
    let batch_len = PIECES_PER_THREAD * rayon::current_num_threads();
    // The disk works on one batch while the threads make the next.
    while !ready.is_empty() {
        let batch: Vec<Piece<'_>> = pieces.by_ref().take(batch_len).collect();
        let write = || -> io::Result<()> {
            for bytes in &ready {
                out.write_all(bytes)?;
                done += bytes.len() as u64;
            }
            progress(done, total);
            Ok(())
        };
        let make = || batch.par_iter().map_init(Vec::new, |numbers, piece| bytes(options, piece, numbers)).collect();
        let (written, next) = rayon::join(write, make);
        written?;
        ready = next;
    }
    Ok(())
}

fn pieces(tensor: &Tensor) -> impl Iterator<Item = Piece<'_>> {
    let step = (PIECE / tensor.cols).max(1);
    let starts = (0..tensor.rows).step_by(step as usize);
    starts.map(move |start| Piece { tensor, rows: start..(start + step).min(tensor.rows) })
}

/// The bytes of a piece, with the padding behind the tensor if it is the last.
fn bytes(options: &SynthOptions, piece: &Piece<'_>, numbers: &mut Vec<f32>) -> Vec<u8> {
    let Piece { tensor, rows } = piece;
    let source = Source::new(options, tensor.weight, tensor.cols);
    let cols = tensor.cols as usize;
    numbers.resize(rows.len() * cols, 0.0);
    for (row, out) in rows.clone().zip(numbers.chunks_mut(cols)) {
        source.row(tensor.first_row + row, out);
    }
    let padding = if rows.end == tensor.rows { tensor.padding as usize } else { 0 };
    let len = rows.len() * (tensor.bytes / u64::from(tensor.rows)) as usize;
    let mut bytes = vec![0; len + padding];
    blocks::encode(tensor.format, numbers, &mut bytes[..len]);
    bytes
}
