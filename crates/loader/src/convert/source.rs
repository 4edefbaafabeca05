//! The rows of an open model in the formats of a new file.

use super::ConvertError;
use super::check::{self, Checked};
use super::rows::{decode_rows, read_rows};
use crate::blocks;
use crate::model::Model;
use crate::placement::Stored;
use crate::writer::{Progress, Rows, Tensor};
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;
use wgoose_graph::{Format, LayerWeight, Weight};

/// The largest f16, and what quantised formats saturate at: their scales are f16.
const LARGEST: f32 = 65504.0;

/// A model that is read to be written.
pub(super) struct Source<'a> {
    pub(super) model: &'a Model,
    /// The tokens of the new file, where it has some of its own.
    pub(super) vocabulary: Option<&'a [Vec<u8>]>,
    /// Where the result of reading the copy back goes; `None` if it is not to be read.
    pub(super) checked: Option<&'a OnceLock<Checked>>,
}

impl Rows for Source<'_> {
    type Error = ConvertError;

    fn fill(
        &self,
        tensor: &Tensor,
        rows: Range<u32>,
        numbers: &mut Vec<f32>,
        out: &mut [u8],
    ) -> Result<(), ConvertError> {
        let first = tensor.first_row as usize;
        let rows = first + rows.start as usize..first + rows.end as usize;
        let weight = in_place_of(tensor.weight);
        if self.model.stored(weight).0 == Stored::Format(tensor.format) {
            return Ok(read_rows(self.model, weight, rows, out)?);
        }
        numbers.resize(rows.len() * tensor.cols as usize, 0.0);
        decode_rows(self.model, weight, rows, numbers)?;
        let narrow = !matches!(tensor.format, Format::F32 | Format::BF16);
        // Not `>`: what is no number would spoil a whole block.
        let fits = |x: &f32| x.abs() <= LARGEST;
        if let Some(value) = numbers.iter().find(|x| narrow && !fits(x)) {
            return Err(ConvertError::Range { tensor: tensor.name.clone(), value: *value, format: tensor.format });
        }
        blocks::encode(tensor.format, numbers, out);
        Ok(())
    }

    fn approve(&self, written: &Path, progress: &mut Progress<'_>) -> Result<(), ConvertError> {
        if let Some(checked) = self.checked {
            let found = check::compare(self.model, &Model::open(written)?, self.vocabulary, progress)?;
            checked.get_or_init(|| found);
        }
        // What was read until here can be believed only now.
        Ok(self.model.check_unchanged()?)
    }
}

/// The value residual that no layer 0 has.
fn in_place_of(weight: Weight) -> Weight {
    match weight {
        Weight::Layer(0, LayerWeight::ValueBias) => Weight::Layer(0, LayerWeight::IclrBias),
        Weight::Layer(0, LayerWeight::ValueDown) => Weight::Layer(0, LayerWeight::IclrDown),
        Weight::Layer(0, LayerWeight::ValueUp) => Weight::Layer(0, LayerWeight::IclrUp),
        weight => weight,
    }
}
