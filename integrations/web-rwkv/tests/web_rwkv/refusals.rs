//! Models that web-rwkv cannot run, and numbers that F16 does not hold, are refused by name.

use crate::models::{SMALL, synthetic};
use crate::support::{TINY, Tensor, checkpoint, named, safetensors as st};
use safetensors::SafeTensorError;
use std::path::PathBuf;
use tempfile::TempDir;
use web_rwkv::runtime::loader::Reader;
use wgoose_graph::{Format, ModelShape};
use wgoose_loader::synth::Mix;
use wgoose_loader::{Container, EmbeddingHead};
use wgoose_web_rwkv::{ModelReader, ReadError};

fn file(folder: &TempDir, tensors: &[Tensor]) -> PathBuf {
    let path = folder.path().join("model.st");
    std::fs::write(&path, st::write(tensors)).unwrap();
    path
}

/// A model that has a head for embeddings in place of the output head.
fn embedding_model() -> Vec<Tensor> {
    let mut body = checkpoint(&TINY, Format::F16, false);
    body.retain(|tensor| tensor.name != "head.weight");
    body.iter_mut().for_each(|tensor| tensor.name.insert_str(0, "rwkv."));
    let (c, name) = (TINY.width as usize, EmbeddingHead::ALL[0]);
    let parts =
        [("fc1.weight", vec![c, c]), ("fc2.weight", vec![c, c]), ("norm.weight", vec![c]), ("norm.bias", vec![c])];
    let head = parts.map(|(part, dims)| {
        Tensor::new(format!("head.{name}_head.{part}"), Format::F16, &dims, &vec![1.0; dims.iter().product()])
    });
    body.into_iter().chain(head).collect()
}

#[test]
fn models_that_web_rwkv_does_not_run_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let deep = ModelShape { deep_embed: Some(16), ..SMALL };
    for (shape, why) in [(ModelShape { layers: 1, ..SMALL }, "one layer"), (deep, "DeepEmbed")] {
        let refused = ModelReader::open(synthetic(&folder, shape, Container::Safetensors, Mix::F16)).unwrap_err();
        assert!(matches!(refused, ReadError::NotRun(said) if said.contains(why)), "{refused}");
    }
    let refused = ModelReader::open(file(&folder, &embedding_model())).unwrap_err();
    assert!(matches!(refused, ReadError::NotRun("it has no output head")), "{refused}");
    let refused = ModelReader::open(folder.path().join("none.gguf")).unwrap_err();
    assert!(matches!(refused, ReadError::Load(_)) && refused.to_string().contains("none.gguf"), "{refused}");
}

#[test]
fn a_number_that_f16_does_not_hold_is_named_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let mut tensors = checkpoint(&TINY, Format::F32, false);
    let largest = [65504.0f32, -65504.0];
    for (name, at, number) in [("blocks.2.ffn.key.weight", 64 * 3 + 5, 65520.0f32), ("blocks.1.att.x_w", 9, -1e6)] {
        let bytes = &mut named(&mut tensors, name).bytes;
        bytes[..8].copy_from_slice(&largest.map(f32::to_le_bytes).concat());
        bytes[4 * at..][..4].copy_from_slice(&number.to_le_bytes());
    }
    let reader = ModelReader::open(file(&folder, &tensors)).unwrap();
    let said = |name: &str| reader.tensor(name).unwrap_err().to_string();
    assert!(said("blocks.2.ffn.key.weight").contains("blocks.2.ffn.key.weight[3, 5] is 65520"));
    assert!(said("blocks.1.att.x_w").contains("blocks.1.att.x_w[0, 9] is -1000000"));
    assert!(reader.tensor("blocks.1.att.x_r").is_ok());
    assert!(matches!(reader.tensor("emb").unwrap_err(), SafeTensorError::TensorNotFound(name) if name == "emb"));
}
