//! Reading a copy back, and comparing it with what it was made of.

use super::ConvertError;
use super::rows::{decode_rows, read_rows};
use crate::blocks;
use crate::model::Model;
use crate::placement::Stored;
use crate::view::TensorView;
use crate::writer::{Progress, WriteError};
use rayon::prelude::*;
use std::ops::Range;
use wgoose_graph::{Format, Weight};

/// Numbers compared at a time by one thread, give or take a row.
const PIECE: usize = 1 << 18;

/// Compares every weight, to the bit, with the source's in the new format, and the vocabulary of a copy that has one.
/// Returns how many weights there are.
pub(super) fn compare(
    source: &Model,
    copy: &Model,
    vocabulary: Option<&[Vec<u8>]>,
    progress: &mut Progress<'_>,
) -> Result<usize, ConvertError> {
    let mut weights = 0;
    let (mut done, total) = (0, copy.file_len() as u64);
    for weight in Weight::all(source.shape()) {
        compare_weight(source, copy, weight)?;
        weights += 1;
        source.release(weight);
        done += copy.tensor(weight).byte_len() as u64;
        if progress(done, total).is_break() {
            return Err(WriteError::Stopped.into());
        }
    }
    for (tensor, wanted) in source.head_tensors() {
        let found = copy.head_tensors().find(|(name, _)| *name == tensor).map(|(_, view)| whole(&view));
        if found != Some(whole(&wanted)) {
            return Err(ConvertError::HeadDiffers { tensor });
        }
    }
    if let (Some(wanted), Some(found)) = (vocabulary, copy.vocabulary()) {
        // Id 0 is the end of text, whatever was given.
        let differs = |token: &usize| found.get(*token) != wanted.get(*token);
        if let Some(token) = (1..wanted.len()).find(differs) {
            return Err(ConvertError::VocabularyDiffers { token });
        }
    }
    copy.check_unchanged()?;
    Ok(weights)
}

/// The format of a tensor, and all its bytes.
fn whole(view: &TensorView<'_>) -> (Format, Vec<u8>) {
    let mut bytes = vec![0; view.byte_len()];
    view.copy_rows(0..view.rows(), &mut bytes);
    (view.format(), bytes)
}

fn compare_weight(source: &Model, copy: &Model, weight: Weight) -> Result<(), ConvertError> {
    let (_, [rows, cols]) = source.stored(weight);
    if copy.stored(weight).1 != [rows, cols] {
        return Err(ConvertError::Differs { weight });
    }
    let step = (PIECE / cols).max(1);
    let pieces = (0..rows).step_by(step).map(|start| start..(start + step).min(rows));
    let pieces: Vec<Range<usize>> = pieces.collect();
    pieces.into_par_iter().try_for_each(|rows| compare_rows(source, copy, weight, rows))
}

fn compare_rows(source: &Model, copy: &Model, weight: Weight, rows: Range<usize>) -> Result<(), ConvertError> {
    let ((from, [_, cols]), to) = (source.stored(weight), copy.tensor(weight));
    let mut bytes = vec![0; rows.len() * to.row_bytes()];
    read_rows(copy, weight, rows.clone(), &mut bytes)?;
    let mut wanted = vec![0; bytes.len()];
    match from == Stored::Format(to.format()) {
        true => read_rows(source, weight, rows, &mut wanted)?,
        false => {
            let mut numbers = vec![0.0; rows.len() * cols];
            decode_rows(source, weight, rows, &mut numbers)?;
            blocks::encode(to.format(), &numbers, &mut wanted);
        }
    }
    match bytes == wanted {
        true => Ok(()),
        false => Err(ConvertError::Differs { weight }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Container;
    use crate::synth::{self, Mix, SynthOptions};
    use wgoose_graph::{LayerWeight, LoraRanks, ModelShape};

    #[test]
    fn a_single_wrong_bit_is_found() {
        let ranks = LoraRanks { decay: 8, iclr: 8, value: 8, gate: 8 };
        let shape = ModelShape {
            layers: 2,
            width: 64,
            ffn: 96,
            head_size: 64,
            vocab: 260,
            ranks,
            deep_embed: None,
            embedding_norm: true,
            output_head: true,
        };
        let (container, vocabulary) = (Container::Gguf, None);
        let options =
            SynthOptions { shape, seed: 1, container, mix: Mix::Q8_0, hot: false, ffn_zeros: None, vocabulary };
        let folder = tempfile::tempdir().unwrap();
        let [path, copy] = ["a", "b"].map(|name| folder.path().join(name));
        synth::write(&options, &path, &mut synth::unwatched).unwrap();
        let source = Model::open(&path).unwrap();
        let vocabulary = source.vocabulary().unwrap();
        let mut file = std::fs::read(&path).unwrap();
        let compare_with = |file: &[u8], vocabulary: &[Vec<u8>]| {
            std::fs::write(&copy, file).unwrap();
            compare(&source, &Model::open(&copy).unwrap(), Some(vocabulary), &mut synth::unwatched)
        };
        assert_eq!(compare_with(&file, &vocabulary).unwrap(), Weight::all(&shape).count());

        let mut other = vocabulary.clone();
        other[77] = b"goose".to_vec();
        let lost = compare_with(&file, &other).unwrap_err();
        assert!(matches!(lost, ConvertError::VocabularyDiffers { token: 77 }), "{lost}");

        let weight = Weight::Layer(1, LayerWeight::FfnValue);
        let last = source.tensor(weight).file_range().unwrap().end - 1;
        file[last] ^= 1;
        let error = compare_with(&file, &vocabulary).unwrap_err();
        assert!(matches!(error, ConvertError::Differs { weight: w } if w == weight), "{error}");
    }
}
