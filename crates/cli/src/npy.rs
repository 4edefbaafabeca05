//! Writes float32 arrays as .npy (format 1.0: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>).

use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes a file of an array of two dimensions or more, row major, whole or not at all; an error names it.
pub(crate) fn save(path: &Path, shape: &[usize], data: &[f32]) -> Result<(), String> {
    let write = |file: &mut std::fs::File| {
        let mut out = BufWriter::new(file);
        out.write_all(&header(shape))?;
        write_rows(&mut out, data)?;
        out.flush()
    };
    wgoose_files::replace(path, write).map(drop).map_err(|e| format!("{}: {e}", path.display()))
}

/// What comes before the data of an array of two dimensions or more.
pub(crate) fn header(shape: &[usize]) -> Vec<u8> {
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
pub(crate) fn write_rows(out: &mut impl Write, data: &[f32]) -> io::Result<()> {
    data.iter().try_for_each(|x| out.write_all(&x.to_le_bytes()))
}
