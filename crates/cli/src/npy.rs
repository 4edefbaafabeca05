//! Writes a float32 matrix as .npy (format 1.0: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>).

use std::io::{self, Write};

/// Writes `[rows, cols]`, row major.
pub(crate) fn write(out: &mut impl Write, rows: usize, cols: usize, data: &[f32]) -> io::Result<()> {
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {cols}), }}");
    // Magic, version and length take 10 bytes; the data begins at a multiple of 64, after a newline.
    let padded = (header.len() + 11).next_multiple_of(64) - 11;
    header.extend(std::iter::repeat_n(' ', padded - header.len()));
    header.push('\n');
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&(header.len() as u16).to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    data.iter().try_for_each(|x| out.write_all(&x.to_le_bytes()))
}
