//! Writes float32 arrays as .npy (format 1.0: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>).

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use wgoose_files::{Existing, NewFile};

/// A file of an array cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct NpyError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Writes a file of an array of two dimensions or more, row major, whole or not at all.
///
/// # Errors
/// The system refuses.
pub fn save(path: &Path, shape: &[usize], data: &[f32]) -> Result<(), NpyError> {
    let mut rows = Rows::begin(path, shape)?;
    rows.write(data)?;
    rows.finish()
}

/// A file that is written some rows at a time, and appears when it is whole.
pub struct Rows {
    path: PathBuf,
    out: BufWriter<NewFile>,
}

impl Rows {
    /// Begins a file of an array of two dimensions or more.
    ///
    /// # Errors
    /// The system refuses.
    pub fn begin(path: &Path, shape: &[usize]) -> Result<Self, NpyError> {
        let begin = || {
            let mut out = BufWriter::new(NewFile::beside(path)?);
            out.write_all(&header(shape))?;
            Ok(out)
        };
        let out = begin().map_err(named(path))?;
        Ok(Rows { path: path.to_owned(), out })
    }

    /// Appends whole rows.
    ///
    /// # Errors
    /// The system refuses.
    pub fn write(&mut self, data: &[f32]) -> Result<(), NpyError> {
        write_rows(&mut self.out, data).map_err(named(&self.path))
    }

    /// Gives the whole file its name.
    ///
    /// # Errors
    /// The system refuses.
    pub fn finish(self) -> Result<(), NpyError> {
        let Rows { path, out } = self;
        let file = out.into_inner().map_err(|e| named(&path)(e.into_error()))?;
        file.finish(Existing::Replace).map(drop).map_err(named(&path))
    }
}

fn named(path: &Path) -> impl Fn(io::Error) -> NpyError + '_ {
    |source| NpyError { path: path.to_owned(), source }
}

/// What comes before the data of an array of two dimensions or more.
pub fn header(shape: &[usize]) -> Vec<u8> {
    let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    let sizes = sizes.join(", ");
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({sizes}), }}");
    // Magic, version and length take 10 bytes; the data begins at a multiple of 64, after a newline.
    let padded = (header.len() + 11).next_multiple_of(64) - 11;
    header.extend(std::iter::repeat_n(' ', padded - header.len()));
    header.push('\n');
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes()].concat()
}

/// Writes whole rows of the data.
///
/// # Errors
/// The system refuses.
pub fn write_rows(out: &mut (impl Write + ?Sized), data: &[f32]) -> io::Result<()> {
    data.iter().try_for_each(|x| out.write_all(&x.to_le_bytes()))
}
