//! A weight as the file stores it, in the model's terms.

use crate::blocks;
use std::ops::Range;
use wgoose_graph::Format;

/// A borrowed weight of `rows` times `cols` numbers.
///
/// Its *canonical bytes* are row major in [`TensorView::format`], as [`wgoose_graph::Weight`] defines the rows. Most
/// files hold them in one piece ([`TensorView::contiguous`]); where a .pth holds a transposed adapter or six vectors
/// for six rows, [`TensorView::copy_rows`] puts them together. Bytes are not aligned in memory.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    format: Format,
    rows: usize,
    cols: usize,
    pieces: Pieces<'a>,
    offset: usize,
}

/// The bytes of a view.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pieces<'a> {
    /// The canonical bytes.
    Whole(&'a [u8]),
    /// The canonical bytes of the transposed matrix; one weight per block.
    Transposed(&'a [u8]),
    /// The rows.
    Rows([&'a [u8]; 6]),
    /// The canonical bytes, which the file does not hold in that format or order.
    Recoded(&'a [u8]),
}

impl<'a> TensorView<'a> {
    /// A view of pieces of the right length.
    pub(crate) fn new(format: Format, [rows, cols]: [usize; 2], pieces: Pieces<'a>, offset: usize) -> Self {
        TensorView { format, rows, cols, pieces, offset }
    }

    /// How the numbers are stored.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Numbers in a row; whole blocks of the format.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Length of the canonical bytes.
    pub fn byte_len(&self) -> usize {
        self.rows * self.row_bytes()
    }

    /// Length of one row of the canonical bytes.
    pub fn row_bytes(&self) -> usize {
        self.cols / self.format.block_weights() * self.format.block_bytes()
    }

    /// The canonical bytes, where the file holds them in one piece.
    pub fn contiguous(&self) -> Option<&'a [u8]> {
        match self.pieces {
            Pieces::Whole(bytes) => Some(bytes),
            Pieces::Transposed(_) | Pieces::Rows(_) | Pieces::Recoded(_) => None,
        }
    }

    /// Where in the file the canonical bytes lie, where it holds them in one piece: what to ask
    /// [`Model::read`](crate::Model::read) for. Several files follow one another: see
    /// [`Model::locate`](crate::Model::locate).
    pub fn file_range(&self) -> Option<Range<usize>> {
        self.contiguous().map(|bytes| self.offset..self.offset + bytes.len())
    }

    /// Where in the file the weight begins (its first piece, if it lies in several). Uploading weights in this order
    /// reads the file from front to back.
    pub fn file_offset(&self) -> usize {
        self.offset
    }

    /// Copies the canonical bytes of some rows.
    ///
    /// # Panics
    /// If `rows` reaches past the last row or `out` is not exactly as long as those rows.
    pub fn copy_rows(&self, rows: Range<usize>, out: &mut [u8]) {
        let row_bytes = self.row_bytes();
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of a tensor of {} rows", self.rows);
        assert_eq!(out.len(), rows.len() * row_bytes, "length of the buffer for rows {rows:?}");
        match self.pieces {
            Pieces::Whole(bytes) | Pieces::Recoded(bytes) => {
                out.copy_from_slice(&bytes[rows.start * row_bytes..rows.end * row_bytes]);
            }
            Pieces::Transposed(bytes) => transpose(bytes, self.format.block_bytes(), self.rows, rows, out),
            Pieces::Rows(pieces) => {
                for (row, out) in rows.zip(out.chunks_exact_mut(row_bytes)) {
                    out.copy_from_slice(pieces[row]);
                }
            }
        }
    }

    /// One row as numbers.
    ///
    /// # Panics
    /// If there is no such row or `out` is not [`TensorView::cols`] long.
    pub fn row_f32(&self, row: usize, out: &mut [f32]) {
        assert_eq!(out.len(), self.cols, "length of the buffer for a row");
        assert!(row < self.rows, "row {row} of a tensor of {} rows", self.rows);
        match self.pieces {
            Pieces::Whole(bytes) | Pieces::Recoded(bytes) => {
                blocks::decode(self.format, &bytes[row * self.row_bytes()..][..self.row_bytes()], out);
            }
            Pieces::Rows(pieces) => blocks::decode(self.format, pieces[row], out),
            Pieces::Transposed(_) => {
                let mut bytes = vec![0; self.row_bytes()];
                self.copy_rows(row..row + 1, &mut bytes);
                blocks::decode(self.format, &bytes, out);
            }
        }
    }

    /// Row, column and value of the first number that is NaN or infinite.
    pub fn find_not_finite(&self) -> Option<(usize, usize, f32)> {
        let mut numbers = vec![0.0; self.cols];
        (0..self.rows).find_map(|row| {
            self.row_f32(row, &mut numbers);
            let column = numbers.iter().position(|number| !number.is_finite())?;
            Some((row, column, numbers[column]))
        })
    }

    /// All numbers, row by row.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut numbers = vec![0.0; self.rows * self.cols];
        match self.pieces {
            Pieces::Whole(bytes) | Pieces::Recoded(bytes) => blocks::decode(self.format, bytes, &mut numbers),
            Pieces::Transposed(_) | Pieces::Rows(_) => {
                let mut bytes = vec![0; self.byte_len()];
                self.copy_rows(0..self.rows, &mut bytes);
                blocks::decode(self.format, &bytes, &mut numbers);
            }
        }
        numbers
    }
}

/// Writes some rows of a matrix of `all_rows` rows whose transpose lies in `bytes`, elements of `size` bytes.
/// Reads in the order of the file.
fn transpose(bytes: &[u8], size: usize, all_rows: usize, rows: Range<usize>, out: &mut [u8]) {
    let cols = bytes.len() / size / all_rows;
    for (col, column) in bytes.chunks_exact(all_rows * size).enumerate() {
        let wanted = &column[rows.start * size..rows.end * size];
        for (row, element) in wanted.chunks_exact(size).enumerate() {
            out[(row * cols + col) * size..][..size].copy_from_slice(element);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_transposed_matrix() {
        // [3 rows, 2 cols] of two-byte elements, stored column by column.
        let stored = [0, 0, 10, 10, 20, 20, 1, 1, 11, 11, 21, 21];
        let view = TensorView::new(Format::F16, [3, 2], Pieces::Transposed(&stored), 0);
        let mut out = [0; 8];
        view.copy_rows(1..3, &mut out);
        assert_eq!(out, [10, 10, 11, 11, 20, 20, 21, 21]);
    }
}
