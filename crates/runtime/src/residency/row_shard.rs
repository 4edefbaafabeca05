//! Row shards: a weight whose bytes exceed the largest binding is bound as several ranges of whole rows.

use crate::RuntimeError;
use std::ops::Range;
use wgoose_graph::{Format, Weight, WeightClass};
use wgoose_kernels::Limits;
use wgoose_kernels::repack::Chunk;

/// Some rows of a weight, in the format they have on the device: one buffer, one binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowShard {
    pub(crate) weight: Weight,
    pub(crate) format: Format,
    /// Which of the weight's row shards.
    pub(crate) index: usize,
    /// First row.
    pub(crate) first: u32,
    /// Number of rows.
    pub(crate) rows: u32,
    /// Weights of a row.
    pub(crate) cols: u32,
    /// Bytes on the device.
    pub(crate) bytes: u64,
}

impl RowShard {
    /// Bytes that are uploaded together: whole groups of eight blocks or whole panels of rows, where the device repacks.
    pub(crate) fn quantum(&self) -> usize {
        if self.format.is_repacked() { Chunk::quantum(self.format, self.cols) as usize } else { 16 }
    }

    /// Bytes from its first to where another can begin: bindings begin at multiples of 256 on any device.
    pub(crate) fn room(&self) -> u64 {
        self.bytes.next_multiple_of(256)
    }

    /// Where a pass needs it: before the layers, in one, or after.
    pub(crate) fn stage(&self) -> u32 {
        match self.weight {
            Weight::Embedding | Weight::Ln0Scale | Weight::Ln0Bias => 0,
            Weight::Layer(layer, _) => layer + 1,
            Weight::LnOutScale | Weight::LnOutBias | Weight::Head => u32::MAX,
        }
    }

    /// Whether it is a vector; these are F32 on the device.
    pub(crate) fn is_vector(&self) -> bool {
        self.weight.class() == WeightClass::Vector
    }
}

/// The row shards in which a matrix is bound.
///
/// # Errors
/// A single row is larger than the largest binding.
fn row_shards(weight: Weight, rows: u32, row_bytes: u64, limits: &Limits) -> Result<Vec<Range<u32>>, RuntimeError> {
    let limit = limits.storage_binding.min(limits.buffer) / 16 * 16;
    let at_once = u32::try_from(limit / row_bytes.max(1)).unwrap_or(u32::MAX);
    // Whole groups of eight blocks, whatever a row has; whole panels of eight rows; whole tiles of the matrix units.
    let at_once = match at_once {
        64.. => at_once / 64 * 64,
        8.. => at_once / 8 * 8,
        few => few,
    };
    if at_once == 0 {
        return Err(RuntimeError::RowTooLarge { weight, row_bytes, limit });
    }
    Ok((0..rows).step_by(at_once as usize).map(|first| first..rows.min(first.saturating_add(at_once))).collect())
}

/// The row shards of a weight of `[rows, cols]` that has that format on the device.
///
/// # Errors
/// A single row is larger than the largest binding.
pub(crate) fn shards_of(
    weight: Weight,
    format: Format,
    [rows, cols]: [u32; 2],
    limits: &Limits,
) -> Result<Vec<RowShard>, RuntimeError> {
    let row_bytes = cols as usize / format.block_weights() * format.block_bytes();
    let shard = |(index, range): (usize, Range<u32>)| {
        let rows = range.end - range.start;
        let bytes = format.bytes(rows as usize, cols as usize).unwrap_or_default() as u64;
        RowShard { weight, format, index, first: range.start, rows, cols, bytes: bytes.next_multiple_of(16) }
    };
    Ok(row_shards(weight, rows, row_bytes as u64, limits)?.into_iter().enumerate().map(shard).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_matrices_are_split_by_rows() {
        let limits = Limits::webgpu();
        let split = row_shards(Weight::Head, 65536, 4096, &limits).unwrap();
        assert_eq!(split, [0..32768, 32768..65536]);
        let split = row_shards(Weight::Head, 65536, 4112, &limits).unwrap();
        assert_eq!(split, [0..32640, 32640..65280, 65280..65536], "whole groups of eight blocks");
        assert_eq!(row_shards(Weight::Head, 10, 4096, &limits).unwrap(), std::slice::from_ref(&(0..10)));
        assert!(matches!(row_shards(Weight::Head, 10, 1 << 28, &limits), Err(RuntimeError::RowTooLarge { .. })));
    }
}
