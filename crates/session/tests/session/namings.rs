//! A model says the same under every naming that people have.

#[path = "../../../loader/tests/loader/model_files/support/namings.rs"]
mod table;

use crate::converted::{converted, logits};
use safetensors::tensor::{Dtype, TensorView};
use std::path::Path;
use table::{NAMINGS, Renaming};
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_loader::Container;
use wgoose_loader::synth::{self, SynthOptions};
use wgoose_loader::writer::{Mix, unwatched};

struct Tensor {
    name: String,
    dtype: Dtype,
    dims: Vec<usize>,
    bytes: Vec<u8>,
}

/// The tensors of a file with the authors' names and transposed adapters.
fn tensors(file: &[u8]) -> Vec<Tensor> {
    let file = safetensors::SafeTensors::deserialize(file).unwrap();
    let mut tensors: Vec<Tensor> = file
        .iter()
        .map(|(name, view)| Tensor {
            name: name.to_owned(),
            dtype: view.dtype(),
            dims: view.shape().to_vec(),
            bytes: view.data().to_vec(),
        })
        .collect();
    // The six mixes of a layer one behind the other, as they are stacked.
    let place = |tensor: &Tensor| {
        let (layer, mix) = tensor.name.split_once(".att.x_")?;
        Some((layer.to_owned(), "rwkvag".find(mix)))
    };
    tensors.sort_by_key(place);
    tensors
}

/// The same under another naming.
fn renamed(tensors: &[Tensor], naming: &Renaming) -> Vec<Tensor> {
    let mut renamed: Vec<Tensor> = Vec::new();
    for tensor in tensors {
        let is_mix = tensor.name.contains(".att.x_") && !tensor.name.ends_with("x_r");
        if naming.is_stacked && is_mix {
            let stack = renamed.last_mut().unwrap();
            stack.dims[0] += 1;
            stack.bytes.extend(&tensor.bytes);
            continue;
        }
        let is_adapter = tensor.name.contains(".att.") && tensor.name.ends_with(['1', '2']);
        let (dims, bytes) = match &tensor.dims[..] {
            [rows, cols] if is_adapter && naming.in_out == Some(true) => {
                (vec![*cols, *rows], transposed(&tensor.bytes, *cols))
            }
            dims => (dims.to_vec(), tensor.bytes.clone()),
        };
        renamed.push(Tensor { name: (naming.rename)(&tensor.name), dtype: tensor.dtype, dims, bytes });
    }
    renamed
}

/// The transpose of a matrix of numbers of two bytes.
fn transposed(bytes: &[u8], cols: usize) -> Vec<u8> {
    let rows = bytes.len() / 2 / cols;
    let at = |row: usize, col: usize| &bytes[(row * cols + col) * 2..][..2];
    (0..cols).flat_map(|col| (0..rows).flat_map(move |row| at(row, col))).copied().collect()
}

fn save(tensors: &[Tensor], path: &Path) {
    fn view(tensor: &Tensor) -> (&str, TensorView<'_>) {
        (&tensor.name, TensorView::new(tensor.dtype, tensor.dims.clone(), &tensor.bytes).unwrap())
    }
    std::fs::write(path, safetensors::serialize(tensors.iter().map(view), None).unwrap()).unwrap();
}

#[test]
fn every_naming_gives_equal_logits() {
    let folder = tempfile::tempdir().unwrap();
    let [source, file] = ["source.st", "model.safetensors"].map(|name| folder.path().join(name));
    // A gate as wide as the model: a square adapter does not show which way it lies.
    let ranks = LoraRanks { decay: 32, iclr: 24, value: 16, gate: 128 };
    let shape = ModelShape { ranks, vocab: 300, ..ModelShape::small(2, 128) };
    let container = Container::Safetensors;
    let options =
        SynthOptions { shape, seed: 7, container, mix: Mix::BF16, hot: false, ffn_zeros: None, vocabulary: None };
    synth::write(&options, &source, &mut unwatched).unwrap();
    let wanted = logits(&source);
    let authors = tensors(&std::fs::read(&source).unwrap());
    for naming in &NAMINGS {
        save(&renamed(&authors, naming), &file);
        assert_eq!(logits(&file), wanted, "{}", naming.title);
    }
    // The last of them, converted.
    assert_eq!(logits(&converted(&file, Mix::BF16)), wanted);
}
