//! Rows of a weight as F16, decoded on several threads.

use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;
use std::ops::Range;
use wgoose_graph::Format;
use wgoose_loader::{TensorView, blocks};

/// About so many numbers are decoded at once: they fit in a core's cache.
const CHUNK: usize = 1 << 16;

/// A number that F16 does not hold.
#[derive(Debug, PartialEq)]
pub(crate) struct OutOfRange {
    pub(crate) row: usize,
    pub(crate) col: usize,
    pub(crate) number: f32,
}

/// The buffers of one thread.
#[derive(Default)]
struct Scratch {
    bytes: Vec<u8>,
    numbers: Vec<f32>,
    rounded: Vec<f16>,
}

/// Some rows of a weight, row by row, as little-endian F16.
///
/// # Errors
/// The first number of a chunk that F16 does not hold. Numbers that the file has as F16 are not looked at.
pub(crate) fn rows(view: &TensorView<'_>, rows: Range<usize>) -> Result<Vec<u8>, OutOfRange> {
    let row_len = view.cols() * size_of::<f16>();
    let rows_at_once = (CHUNK / view.cols()).max(1);
    let mut out = vec![0; rows.len() * row_len];
    let chunks = out.par_chunks_mut(rows_at_once * row_len).enumerate();
    chunks.try_for_each_init(Scratch::default, |scratch, (chunk, out)| {
        let first = rows.start + chunk * rows_at_once;
        let rows = first..first + out.len() / row_len;
        if view.format() == Format::F16 {
            view.copy_rows(rows, out);
            return Ok(());
        }
        scratch.decode(view, rows, out)
    })?;
    Ok(out)
}

impl Scratch {
    fn decode(&mut self, view: &TensorView<'_>, rows: Range<usize>, out: &mut [u8]) -> Result<(), OutOfRange> {
        let (first, len) = (rows.start, rows.len() * view.cols());
        self.bytes.resize(rows.len() * view.row_bytes(), 0);
        self.numbers.resize(len, 0.0);
        self.rounded.resize(len, f16::ZERO);
        view.copy_rows(rows, &mut self.bytes);
        blocks::decode(view.format(), &self.bytes, &mut self.numbers);
        self.rounded.convert_from_f32_slice(&self.numbers);
        if let Some(at) = self.rounded.iter().position(|number| !number.is_finite()) {
            let (row, col) = (first + at / view.cols(), at % view.cols());
            return Err(OutOfRange { row, col, number: self.numbers[at] });
        }
        for (out, number) in out.as_chunks_mut().0.iter_mut().zip(&self.rounded) {
            *out = number.to_le_bytes();
        }
        Ok(())
    }
}
