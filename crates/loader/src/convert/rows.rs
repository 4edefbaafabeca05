//! Rows of an open model, as bytes, as numbers and in other formats.

use super::ConvertError;
use super::rounding::RoundingSums;
use crate::blocks;
use crate::error::LoadError;
use crate::model::Model;
use crate::placement::Stored;
use std::ops::Range;
use wgoose_graph::{Format, Weight};

/// Reads the canonical bytes of some rows: by position where they lie in one piece, else through the map.
pub(super) fn read_rows(model: &Model, weight: Weight, rows: Range<usize>, out: &mut [u8]) -> Result<(), LoadError> {
    let view = model.tensor(weight);
    match view.file_range() {
        Some(range) => {
            let start = range.start + rows.start * view.row_bytes();
            model.read(start..start + out.len(), out)
        }
        None => {
            view.copy_rows(rows, out);
            Ok(())
        }
    }
}

/// Reads some rows as numbers.
pub(crate) fn decode_rows(
    model: &Model,
    weight: Weight,
    rows: Range<usize>,
    numbers: &mut [f32],
) -> Result<(), LoadError> {
    let (stored, [_, cols]) = model.stored(weight);
    match stored {
        Stored::Format(format) => {
            let mut bytes = vec![0; rows.len() * model.tensor(weight).row_bytes()];
            read_rows(model, weight, rows, &mut bytes)?;
            blocks::decode(format, &bytes, numbers);
        }
        Stored::Source(format) => {
            // The file was checked: rows are whole blocks.
            let row = format.bytes(1, cols).unwrap_or_default();
            let mut bytes = vec![0; rows.len() * row];
            let start = model.source_range(weight).start + rows.start * row;
            model.read(start..start + bytes.len(), &mut bytes)?;
            format.decode(&bytes, numbers);
        }
    }
    Ok(())
}

/// Writes some rows in a format: copied where they have it. `numbers` is room to work in. Returns what rounding has
/// made of them.
pub(super) fn encode_rows(
    model: &Model,
    weight: Weight,
    rows: Range<usize>,
    format: Format,
    numbers: &mut Vec<f32>,
    out: &mut [u8],
) -> Result<RoundingSums, ConvertError> {
    let (stored, [_, cols]) = model.stored(weight);
    if stored == Stored::Format(format) {
        read_rows(model, weight, rows, out)?;
        return Ok(RoundingSums::default());
    }
    numbers.resize(rows.len() * cols, 0.0);
    decode_rows(model, weight, rows, numbers)?;
    let largest = blocks::largest(format);
    // Not `>`: what is no number would spoil a whole block.
    let fits = |x: &f32| x.abs() <= largest;
    if let Some(value) = numbers.iter().find(|x| largest.is_finite() && !fits(x)) {
        return Err(ConvertError::Range { tensor: weight.to_string(), value: *value, format });
    }
    blocks::encode(format, numbers, out);
    Ok(RoundingSums::of(numbers, format, out))
}
