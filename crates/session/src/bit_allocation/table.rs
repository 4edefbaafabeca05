//! The table that formats are chosen from: every matrix in every format, its bytes and its divergence.

use super::candidates::{candidates, fixed, is_chosen};
use super::frontier::Choice;
use super::siblings::Siblings;
use super::{AllocatedTensor, AllocationError, AllocationStep, MeasuredFormat, go_on};
use crate::eval::{Calibration, Divergence};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Instant;
use wgoose_graph::{Format, Weight};
use wgoose_loader::Model;
use wgoose_loader::convert::{ConvertOptions, file_bytes};
use wgoose_loader::writer::{ChosenFormats, Mix};

/// What the bytes of a tensor in a GGUF file are filled up to.
const ALIGNMENT: usize = 32;

/// Every matrix of a model in every format, and the file that a choice makes.
pub(super) struct Table<'a> {
    model: &'a Model,
    file: ConvertOptions,
    pub(super) tensors: Vec<AllocatedTensor>,
    /// Bytes of the file beside these matrices.
    rest: u64,
}

/// What measures a model with some weights in other formats.
pub(super) struct Meter<'a> {
    pub(super) siblings: Siblings,
    pub(super) calibration: &'a Calibration,
}

impl Meter<'_> {
    pub(super) fn divergence(&mut self, formats: &[(Weight, Format)]) -> Result<Divergence, AllocationError> {
        Ok(self.calibration.divergence(&mut self.siblings.with(formats)?)?)
    }
}

impl<'a> Table<'a> {
    /// Nothing is measured yet.
    ///
    /// # Errors
    /// A file that cannot have formats chosen tensor by tensor.
    pub(super) fn new(model: &'a Model, file: ConvertOptions) -> Result<Self, AllocationError> {
        let tensor = |weight: Weight| {
            let view = model.tensor(weight);
            let measured = |format: Format| {
                let bytes = format.bytes(view.rows(), view.cols())?.next_multiple_of(ALIGNMENT) as u64;
                Some(MeasuredFormat { format, bytes, kl: 0.0 })
            };
            let formats = candidates(model, weight).into_iter().filter_map(measured).collect();
            AllocatedTensor { weight, formats, chosen: 0 }
        };
        let tensors: Vec<AllocatedTensor> =
            Weight::all(model.shape()).filter(|weight| is_chosen(*weight)).map(tensor).collect();
        let mut table = Table { model, file, tensors, rest: 0 };
        let smallest: Vec<usize> = vec![0; table.tensors.len()];
        let matrices: u64 = table.tensors.iter().map(|tensor| tensor.formats[0].bytes).sum();
        table.rest = table.file_bytes(&smallest)? - matrices;
        Ok(table)
    }

    /// What a budget for the file leaves for the matrices.
    ///
    /// # Errors
    /// Too few bytes for the smallest file.
    pub(super) fn room(&self, budget: u64) -> Result<u64, AllocationError> {
        let smallest = self.rest + self.tensors.iter().map(|tensor| tensor.formats[0].bytes).sum::<u64>();
        match budget.checked_sub(self.rest).filter(|_| budget >= smallest) {
            Some(room) => Ok(room),
            None => Err(AllocationError::BudgetTooSmall { budget, smallest }),
        }
    }

    /// Measures every matrix in every format but the source's own, which changes nothing.
    pub(super) fn measure(
        &mut self,
        meter: &mut Meter<'_>,
        progress: &mut dyn FnMut(AllocationStep) -> ControlFlow<()>,
    ) -> Result<(), AllocationError> {
        let total = self.tensors.iter().map(|tensor| tensor.formats.len() - 1).sum();
        let begun = Instant::now();
        meter.divergence(&[])?;
        go_on(progress(AllocationStep::Measurements { total, each: begun.elapsed() }))?;
        let mut done = 0;
        for AllocatedTensor { weight, formats, .. } in &mut self.tensors {
            let others = formats.len() - 1;
            for measured in &mut formats[..others] {
                let (weight, format) = (*weight, measured.format);
                go_on(progress(AllocationStep::Tensor { weight, format, done, total }))?;
                measured.kl = meter.divergence(&[(weight, format)])?.all().mean_kl();
                done += 1;
            }
        }
        Ok(())
    }

    /// What there is to choose from.
    pub(super) fn choices(&self) -> Vec<Vec<Choice>> {
        let choice = |measured: &MeasuredFormat| Choice { bytes: measured.bytes, kl: measured.kl };
        self.tensors.iter().map(|tensor| tensor.formats.iter().map(choice).collect()).collect()
    }

    /// The formats of all weights, where the matrices have those of a mix.
    pub(super) fn formats(&self, mix: &[usize]) -> Vec<(Weight, Format)> {
        let chosen = self.tensors.iter().zip(mix);
        let chosen: BTreeMap<Weight, Format> =
            chosen.map(|(tensor, choice)| (tensor.weight, tensor.formats[*choice].format)).collect();
        let format = |weight: Weight| chosen.get(&weight).copied().unwrap_or_else(|| fixed(weight));
        Weight::all(self.model.shape()).map(|weight| (weight, format(weight))).collect()
    }

    /// What to write for a mix.
    pub(super) fn chosen(&self, mix: &[usize], kl: f64) -> ChosenFormats {
        ChosenFormats { formats: self.formats(mix).into_iter().collect(), kl: kl as f32 }
    }

    /// Bytes of the file of a mix.
    pub(super) fn file_bytes(&self, mix: &[usize]) -> Result<u64, AllocationError> {
        let chosen = Some(self.chosen(mix, 0.0));
        Ok(file_bytes(self.model, &ConvertOptions { chosen, mix: self.most(mix), ..self.file.clone() })?)
    }

    /// The mix that a file is called after: that of the format which most numbers have.
    pub(super) fn most(&self, mix: &[usize]) -> Mix {
        let mut numbers: BTreeMap<Format, u64> = BTreeMap::new();
        for (weight, format) in self.formats(mix) {
            let [rows, cols] = weight.shape(self.model.shape()).map(u64::from);
            *numbers.entry(format).or_default() += rows * cols;
        }
        let most = numbers.into_iter().max_by_key(|(_, numbers)| *numbers).map(|(format, _)| format);
        Mix::ALL.into_iter().find(|mix| Some(mix.matrix()) == most).unwrap_or(Mix::F16)
    }

    /// The formats of a named mix and the bytes of its file; `None` if the model cannot have it, or has less.
    pub(super) fn named(&self, mix: Mix) -> Option<(Vec<(Weight, Format)>, u64)> {
        let fits = |weight: Weight| {
            let view = self.model.tensor(weight);
            mix.in_gguf(weight).bytes(view.rows(), view.cols()).is_some_and(|bytes| bytes <= view.byte_len())
        };
        if !self.tensors.iter().all(|tensor| fits(tensor.weight)) {
            return None;
        }
        let formats = Weight::all(self.model.shape()).map(|weight| (weight, mix.in_gguf(weight))).collect();
        let file = ConvertOptions { mix, chosen: None, ..self.file.clone() };
        Some((formats, file_bytes(self.model, &file).ok()?))
    }
}
