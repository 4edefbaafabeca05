//! Merges an adapter into an open model.

use super::names::Target;
use super::read::Adapter;
use super::update::{AdapterTensor, Matrix, Update};
use super::{AdapterError, AdapterSource};
use crate::blocks;
use crate::convert::decode_rows;
use crate::error::LoadError;
use crate::model::Model;
use crate::placement::Stored;
use rayon::prelude::*;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use wgoose_graph::{Format, Weight, WeightClass};

/// Numbers merged at a time by one thread, give or take a row.
const PIECE: usize = 1 << 18;

/// An adapter that was merged, and what became of the weights.
#[derive(Clone, Debug, PartialEq)]
pub struct MergedAdapter {
    /// The file, or the folder, as it was given.
    pub path: PathBuf,
    /// Its kinds, such as `LoRA`.
    pub kinds: Vec<&'static str>,
    /// The largest rank of its updates.
    pub rank: usize,
    /// The factor of the updates of that rank.
    pub scale: f32,
    /// Matrices that something was added to.
    pub matrices: usize,
    /// Those of them that were quantised, and are kept in F16.
    pub widened: usize,
    /// Tensors that took the place of weights as they were.
    pub replaced: usize,
    /// Hash of the tensors and the factors, in hexadecimal.
    pub digest: String,
}

/// `LoRA of rank 32, scale 2, merged into 48 matrices (12 of them kept in F16 instead of quantised), 6 tensors
/// replaced`
impl fmt::Display for MergedAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
        let (kinds, matrices) = (self.kinds.join(" and "), count(self.matrices, "matrix", "matrices"));
        write!(f, "{kinds} of rank {}, scale {}, merged into {matrices}", self.rank, self.scale)?;
        if self.widened > 0 {
            write!(f, " ({} of them kept in F16 instead of quantised)", self.widened)?;
        }
        match self.replaced {
            0 => Ok(()),
            replaced => write!(f, ", {} replaced", count(replaced, "tensor", "tensors")),
        }
    }
}

/// Merges an adapter into the weights of a model, in memory: they take it until the model is dropped. Matrices in
/// floats stay in their format, quantised ones become F16. The model has another fingerprint from then on.
///
/// # Errors
/// The adapter cannot be read, is of no kind that is known or for another model, or does not say its scale and no other
/// place does. The model is then as it was, or to be dropped if numbers were out of range.
pub fn merge(model: &mut Model, source: &AdapterSource) -> Result<MergedAdapter, LoadError> {
    let wrong = |why: AdapterError| LoadError::Adapter(why).of_file(&source.path);
    let adapter = Adapter::read(model.shape(), source)?;
    let scales = adapter.updates.values().map(|update| scale(update, &adapter, source));
    let scales: Vec<f32> = scales.collect::<Result<_, _>>().map_err(wrong)?;
    let mut merged = MergedAdapter {
        path: source.path.clone(),
        kinds: Vec::new(),
        rank: 0,
        scale: 1.0,
        matrices: adapter.updates.len(),
        widened: 0,
        replaced: adapter.whole.len(),
        digest: String::new(),
    };
    for (target, tensor) in adapter.whole {
        replace(model, target, tensor, source)?;
    }
    let mut digest = blake3::Hasher::new();
    digest.update(adapter.digest.as_bytes());
    for ((&weight, update), &scale) in adapter.updates.iter().zip(&scales) {
        let (stored, _) = model.stored(weight);
        let format = kept_format(stored);
        let bytes = merged_rows(model, weight, format, |row, weights| update.add_to_row(row, scale, weights), source)?;
        model.recode(weight, format, bytes);
        merged.widened += usize::from(stored != Stored::Format(format));
        if !merged.kinds.contains(&update.kind()) {
            merged.kinds.push(update.kind());
        }
        if update.rank() > merged.rank {
            merged.rank = update.rank();
            merged.scale = scale;
        }
        digest.update(&scale.to_le_bytes());
    }
    let digest = digest.finalize();
    merged.digest = digest.to_hex().to_string();
    model.identify(*digest.as_bytes(), merged.clone());
    model.check_unchanged()?;
    Ok(merged)
}

/// The factor of an update.
fn scale(update: &Update, adapter: &Adapter, source: &AdapterSource) -> Result<f32, AdapterError> {
    match (source.scale, update) {
        (Some(scale), _) => Ok(scale),
        (None, Update::Lora(lora)) => {
            adapter.config.and_then(|config| config.scale(lora.rank)).ok_or(AdapterError::NoScale)
        }
        (None, _) => Ok(1.0),
    }
}

/// The format of a weight that was changed.
fn kept_format(stored: Stored) -> Format {
    match stored {
        Stored::Format(format) if !format.is_quantised() => format,
        Stored::Format(_) | Stored::Source(_) => Format::F16,
    }
}

/// Puts a tensor in the place of a weight, or of one of its rows.
fn replace(model: &mut Model, target: Target, tensor: AdapterTensor, source: &AdapterSource) -> Result<(), LoadError> {
    let Target { weight, row } = target;
    let (stored, [rows, cols]) = model.stored(weight);
    let ones = tensor.dims.iter().take_while(|dim| **dim == 1).count();
    let (is_vector, dims) = (row.is_some() || rows == 1, &tensor.dims[ones..]);
    let numbers = match weight.class() {
        _ if is_vector && tensor.numbers.len() == cols => tensor.numbers,
        // The authors' checkpoints have the halves of adapters the other way around.
        WeightClass::Adapter if dims == [cols, rows] => {
            let places = (0..rows).flat_map(|row| (0..cols).map(move |col| col * rows + row));
            places.map(|place| tensor.numbers[place]).collect()
        }
        _ if !is_vector && dims == [rows, cols] => tensor.numbers,
        _ => {
            let why = Matrix { weight, rows, cols }.misfit(tensor, "the shape that the authors' checkpoints have");
            return Err(LoadError::Adapter(why).of_file(&source.path));
        }
    };
    let format = kept_format(stored);
    let put = |at: usize, weights: &mut [f32]| match row {
        Some(row) if row != at => {}
        Some(_) => weights.copy_from_slice(&numbers),
        None => weights.copy_from_slice(&numbers[at * cols..][..cols]),
    };
    let bytes = merged_rows(model, weight, format, put, source)?;
    model.recode(weight, format, bytes);
    Ok(())
}

/// The rows of a weight in a float format, once `change` has changed each of them.
fn merged_rows(
    model: &Model,
    weight: Weight,
    format: Format,
    change: impl Fn(usize, &mut [f32]) + Sync,
    source: &AdapterSource,
) -> Result<Arc<[u8]>, LoadError> {
    let (_, [rows, cols]) = model.stored(weight);
    let row_bytes = cols * format.block_bytes();
    let largest = if format == Format::F16 { f32::from(half::f16::MAX) } else { f32::MAX };
    let mut bytes = vec![0; rows * row_bytes];
    let step = (PIECE / cols).max(1);
    bytes.par_chunks_mut(step * row_bytes).enumerate().try_for_each_init(Vec::new, |numbers, (piece, out)| {
        let rows = piece * step..piece * step + out.len() / row_bytes;
        numbers.resize(rows.len() * cols, 0.0);
        decode_rows(model, weight, rows.clone(), numbers)?;
        rows.zip(numbers.chunks_exact_mut(cols)).for_each(|(row, weights)| change(row, weights));
        // Not `>`: what is no number is found too.
        let fits = |x: &f32| x.abs() <= largest;
        if let Some(&value) = numbers.iter().find(|x| !fits(x)) {
            return Err(LoadError::Adapter(AdapterError::Range { weight, value, format }).of_file(&source.path));
        }
        blocks::encode(format, numbers, out);
        Ok(())
    })?;
    model.release(weight);
    Ok(Arc::from(bytes))
}
