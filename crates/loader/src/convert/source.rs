//! The rows of an open model in the formats of a new file.

use super::ConvertError;
use super::check;
use super::rounding::{Rounding, Roundings};
use super::rows::encode_rows;
use crate::model::Model;
use crate::writer::{Progress, Rows, Tensor};
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;
use wgoose_graph::{LayerWeight, Weight};

/// A model that is read to be written.
pub(super) struct Source<'a> {
    pub(super) model: &'a Model,
    /// The tokens of the new file, where it has some of its own.
    pub(super) vocabulary: Option<&'a [Vec<u8>]>,
    /// Where the number of weights that were read back goes; `None` if the copy is not to be read.
    pub(super) checked: Option<&'a OnceLock<usize>>,
    /// What rounding has made of each weight.
    pub(super) roundings: &'a Roundings,
    /// The most that it may.
    pub(super) most_rounding: f64,
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
        let Some(weight) = tensor.weight else {
            copy_head(self.model, &tensor.name, rows, out);
            return Ok(());
        };
        let weight = in_place_of(weight);
        let sums = encode_rows(self.model, weight, rows, tensor.format, numbers, out).map_err(|why| match why {
            ConvertError::Range { value, format, .. } => {
                ConvertError::Range { tensor: tensor.name.clone(), value, format }
            }
            other => other,
        })?;
        self.roundings.add(weight, sums);
        Ok(())
    }

    fn approve(&self, written: &Path, progress: &mut Progress<'_>) -> Result<(), ConvertError> {
        let Rounding { error, worst } = self.roundings.worst();
        if error.is_nan() || error > self.most_rounding {
            return Err(ConvertError::Rounding { weight: worst, error, most: self.most_rounding });
        }
        if let Some(checked) = self.checked {
            let found = check::compare(self.model, &Model::open(written)?, self.vocabulary, progress)?;
            checked.get_or_init(|| found);
        }
        // What was read until here can be believed only now.
        Ok(self.model.check_unchanged()?)
    }
}

/// Copies rows of a tensor of an embedding head.
fn copy_head(model: &Model, name: &str, rows: Range<usize>, out: &mut [u8]) {
    if let Some((_, view)) = model.head_tensors().find(|(own, _)| own == name) {
        view.copy_rows(rows, out);
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
