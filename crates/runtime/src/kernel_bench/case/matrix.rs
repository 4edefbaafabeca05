//! Random matrices, drawn as the bytes of their blocks: no row repeats another, and a head is drawn in the time that
//! its upload takes.

use super::numbers::{Draws, Numbers};
use rayon::prelude::*;
use wgoose_graph::Format;
use wgoose_kernels::Dense;
use wgoose_loader::blocks;

/// The largest finite f16.
const LARGEST: f32 = 65504.0;

/// A subnormal f16.
const SUBNORMAL: f32 = 3e-7;

/// A matrix to draw.
pub(super) struct Drawn {
    pub(super) format: Format,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) range: (f32, f32),
    pub(super) numbers: Numbers,
    /// The rows that the reference reads, in rising order.
    pub(super) wanted: Vec<usize>,
}

impl Drawn {
    /// Its bytes as the device has them, and the rows that are wanted as numbers.
    pub(super) fn draw(self, rng: &mut Draws) -> (Vec<u8>, Dense) {
        let (in_file, cols) = (self.format.as_in_file(), self.cols);
        let row_bytes = cols / in_file.block_weights() * in_file.block_bytes();
        let seed = rng.bits();
        let mut bytes = vec![0; self.rows * row_bytes];
        if row_bytes > 0 {
            let each = bytes.par_chunks_mut(row_bytes).enumerate();
            each.for_each(|(row, bytes)| self.row(bytes, &mut Draws::part(seed, row as u64)));
        }
        let mut data = vec![0.0; self.wanted.len() * cols];
        let rows = data.par_chunks_mut(cols.max(1)).zip(&self.wanted);
        rows.for_each(|(out, row)| blocks::decode(in_file, &bytes[row * row_bytes..][..row_bytes], out));
        let dense = Dense { rows: self.rows, cols, wanted: self.wanted, data };
        (as_on_device(self.format, self.rows, cols, bytes), dense)
    }

    /// Fills the blocks of a row.
    fn row(&self, bytes: &mut [u8], rng: &mut Draws) {
        let format = self.format.as_in_file();
        let (block, high) = (format.block_bytes(), self.range.1);
        if !format.is_quantised() {
            let mut weights = rng.floats(bytes.len() / block, self.range);
            self.special_weights(&mut weights, rng);
            blocks::encode(format, &weights, bytes);
        } else {
            for word in bytes.chunks_mut(8) {
                word.copy_from_slice(&rng.bits().to_le_bytes()[..word.len()]);
            }
            let count = bytes.len() / block;
            let largest = rng.below(count as u64) as usize;
            for (i, bytes) in bytes.chunks_exact_mut(block).enumerate() {
                let factor = match self.numbers {
                    Numbers::Trained if rng.below(16) == 0 => 0.0,
                    Numbers::Extreme if i == largest => LARGEST / 2.0 / high,
                    Numbers::Extreme if rng.below(8) == 0 => -1.0,
                    Numbers::Extreme if rng.below(8) == 0 => SUBNORMAL / high,
                    _ => 1.0,
                };
                scale(format, bytes, high * factor);
            }
        }
        if self.numbers == Numbers::Trained && rng.below(4) == 0 && bytes.len().is_multiple_of(2 * block) {
            let (first, second) = bytes.split_at_mut(bytes.len() / 2);
            second.copy_from_slice(first);
        }
    }

    fn special_weights(&self, weights: &mut [f32], rng: &mut Draws) {
        match self.numbers {
            Numbers::Trained => weights.iter_mut().for_each(|weight| match rng.below(16) {
                0 => *weight = 0.0,
                1 => *weight = -0.0,
                2 => *weight = SUBNORMAL,
                _ => {}
            }),
            Numbers::Extreme if !weights.is_empty() => {
                let at = rng.below(weights.len() as u64) as usize;
                weights[at] = if rng.below(2) == 0 { LARGEST } else { -LARGEST };
            }
            _ => {}
        }
    }
}

/// Writes the scales of a block of random codes, so that its weights lie within about `high` of 0.
fn scale(format: Format, block: &mut [u8], high: f32) {
    let mut put = |at: usize, value: f32| blocks::encode(Format::F16, &[value], &mut block[at..at + 2]);
    match format {
        Format::Q8_0 => put(0, high / 128.0),
        Format::Q4_0 => put(0, high / 8.0),
        // `w = d sc q - dmin m`: the first term up to twice as large as the second.
        Format::Q4_K | Format::Q5_K => {
            let codes = if format == Format::Q4_K { 15.0 } else { 31.0 };
            put(0, 2.0 * high / (63.0 * codes));
            put(2, high / 63.0);
        }
        Format::Q6_K => put(208, high / (128.0 * 32.0)),
        _ => {}
    }
}

/// The blocks of a matrix in the order in which the device has them.
fn as_on_device(format: Format, rows: usize, cols: usize, bytes: Vec<u8>) -> Vec<u8> {
    let in_file = format.as_in_file();
    if format.is_interleaved() {
        let group = Format::INTERLEAVED_BLOCKS * format.block_bytes();
        let mut interleaved = vec![0; bytes.len().next_multiple_of(group)];
        blocks::interleave(in_file, &bytes, &mut interleaved);
        return interleaved;
    }
    if format.is_k_major() {
        let mut k_major = vec![0; format.bytes(rows, cols).unwrap_or_default()];
        blocks::to_k_major(in_file, cols, &bytes, &mut k_major);
        return k_major;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(format: Format, numbers: Numbers) -> Vec<f32> {
        let (rows, cols, range) = (300, 512, (-0.1, 0.1));
        let wanted = (0..rows).collect();
        Drawn { format, rows, cols, range, numbers, wanted }.draw(&mut Draws::new(1)).1.data
    }

    #[test]
    fn no_row_repeats_another_and_weights_lie_about_zero() {
        for format in Format::all().filter(|format| !format.is_interleaved() && !format.is_k_major()) {
            let weights = drawn(format, Numbers::Even);
            let rows: std::collections::BTreeSet<Vec<u32>> =
                weights.chunks(512).map(|row| row.iter().map(|w| w.to_bits()).collect()).collect();
            assert_eq!(rows.len(), 300, "{format}");
            let rms = (weights.iter().map(|w| w * w).sum::<f32>() / weights.len() as f32).sqrt();
            let mean = weights.iter().sum::<f32>() / weights.len() as f32;
            assert!((0.02..0.12).contains(&rms) && mean.abs() < 0.02, "{format}: rms {rms}, mean {mean}");
        }
    }

    #[test]
    fn extreme_matrices_stay_finite_and_are_extreme_in_every_row() {
        for format in Format::all().filter(|format| !format.is_interleaved() && !format.is_k_major()) {
            let weights = drawn(format, Numbers::Extreme);
            for row in weights.chunks(512) {
                let largest = row.iter().fold(0.0f32, |largest, w| largest.max(w.abs()));
                assert!((5000.0..=1.001 * LARGEST).contains(&largest), "{format}: {largest}");
            }
        }
    }
}
