//! One weight of an open model in another format, in memory: what a file of it would hold, without the file.

use super::ConvertError;
use super::rows::encode_rows;
use crate::model::Model;
use crate::placement::Stored;
use crate::writer::WriteError;
use rayon::prelude::*;
use std::sync::Arc;
use wgoose_graph::{Format, Weight};

/// Numbers made at a time by one thread, give or take a row.
const PIECE: usize = 1 << 18;

/// Gives `copy`, a clone of `source`, a weight of `source` in another format, with the bytes that [`convert`](super::convert)
/// writes. They are held in memory until the clone is dropped; the file's own format takes none.
///
/// # Errors
/// A format that cannot hold the rows or the numbers, a source that cannot be read.
pub fn recode(source: &Model, copy: &mut Model, weight: Weight, format: Format) -> Result<(), ConvertError> {
    let (stored, [rows, cols]) = source.stored(weight);
    if stored == Stored::Format(format) {
        copy.restore(source, weight);
        return Ok(());
    }
    let row_bytes = match format.bytes(1, cols) {
        Some(bytes) => bytes,
        None => {
            return Err(WriteError::RowLength { tensor: weight.to_string(), cols: cols as u32, format }.into());
        }
    };
    let mut bytes = vec![0; rows * row_bytes];
    let step = (PIECE / cols).max(1);
    bytes.par_chunks_mut(step * row_bytes).enumerate().try_for_each_init(Vec::new, |numbers, (piece, out)| {
        let first = piece * step;
        encode_rows(source, weight, first..first + out.len() / row_bytes, format, numbers, out).map(drop)
    })?;
    copy.recode(weight, format, Arc::from(bytes));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Container;
    use crate::convert::{ConvertOptions, MOST_ROUNDING, convert};
    use crate::synth::{self, Mix, SynthOptions};
    use wgoose_graph::{LayerWeight, LoraRanks, ModelShape};

    #[test]
    fn a_recoded_weight_has_the_bytes_of_a_file_in_its_format() {
        let ranks = LoraRanks { decay: 8, iclr: 8, value: 8, gate: 8 };
        let shape = ModelShape {
            layers: 2,
            width: 256,
            ffn: 512,
            head_size: 64,
            vocab: 260,
            ranks,
            deep_embed: None,
            embedding_norm: true,
            output_head: true,
        };
        let (container, vocabulary) = (Container::Gguf, None);
        let options =
            SynthOptions { shape, seed: 1, container, mix: Mix::F16, hot: false, ffn_zeros: None, vocabulary };
        let folder = tempfile::tempdir().unwrap();
        let [path, quantised] = ["a", "b"].map(|name| folder.path().join(name));
        synth::write(&options, &path, &mut synth::unwatched).unwrap();
        let source = Model::open(&path).unwrap();
        let options = ConvertOptions {
            container,
            mix: Mix::Q4_K_M,
            chosen: None,
            name: String::new(),
            vocabulary: None,
            set: Vec::new(),
            replace: false,
            check: false,
            most_rounding: MOST_ROUNDING,
        };
        convert(&source, &options, &quantised, &mut synth::unwatched).unwrap();
        let written = Model::open(&quantised).unwrap();

        let mut copy = source.clone();
        for weight in Weight::all(&shape) {
            recode(&source, &mut copy, weight, written.tensor(weight).format()).unwrap();
        }
        let bytes = |model: &Model, weight| {
            let view = model.tensor(weight);
            let mut bytes = vec![0; view.byte_len()];
            view.copy_rows(0..view.rows(), &mut bytes);
            (view.format(), bytes)
        };
        for weight in Weight::all(&shape) {
            assert!(bytes(&copy, weight) == bytes(&written, weight), "{weight}");
        }
        assert_ne!(copy.fingerprint(), source.fingerprint());

        let weight = Weight::Layer(1, LayerWeight::FfnKey);
        let other = copy.fingerprint();
        recode(&source, &mut copy, weight, Format::F16).unwrap();
        assert!(bytes(&copy, weight) == bytes(&source, weight), "back in the file's own format");
        assert_ne!(copy.fingerprint(), other);
        let adapter = Weight::Layer(1, LayerWeight::GateUp);
        let error = recode(&source, &mut copy, adapter, Format::Q4_K).unwrap_err();
        assert!(matches!(error, ConvertError::Write(WriteError::RowLength { cols: 8, .. })), "{error}");
    }
}
