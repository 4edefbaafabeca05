//! A model whose embedding has its norm in it says what the model says that it was made of.

use crate::model::numbers::{Result, Tolerance, assert_agree};
use crate::model::world::{SHAPE, all, bindable, cpu, device, forget, fused, gpu, tokens};
use std::path::Path;
use std::sync::Arc;
use wgoose_graph::{Fusion, FusionSet, ModelShape, Weight};
use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write};
use wgoose_loader::{Container, Model};
use wgoose_runtime::{Engine, Outputs, Sequence};

/// A model of a shape, and the same with the norm in the embedding.
pub(crate) fn plain_and_folded(shape: ModelShape) -> [Arc<Model>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let [plain, folded] = ["plain.st", "folded.st"].map(|name| folder.path().join(name));
    let container = Container::Safetensors;
    let options =
        SynthOptions { shape, seed: 1, container, mix: Mix::F32, hot: false, ffn_zeros: None, vocabulary: None };
    write(&options, &plain, &mut unwatched).unwrap();
    let model = Model::open(&plain).unwrap();
    fold(&model, &plain, &folded);
    let config = r#"{"model_type": "rwkv7", "embedding_layer_norm_fused": true}"#;
    std::fs::write(folder.path().join("config.json"), config).unwrap();
    [Arc::new(model), Arc::new(Model::open(&folded).unwrap())]
}

/// Writes a safetensors file again, with the norm in the rows of the embedding and without its tensors.
fn fold(model: &Model, source: &Path, target: &Path) {
    let mut file = std::fs::read(source).unwrap();
    let embedding = model.tensor(Weight::Embedding);
    let [scale, bias] = [Weight::Ln0Scale, Weight::Ln0Bias].map(|weight| model.tensor(weight).to_f32());
    let row_bytes = embedding.row_bytes();
    let rows = file[embedding.file_range().unwrap()].chunks_exact_mut(row_bytes);
    for (row, numbers) in rows.zip(embedding.to_f32().chunks_exact(embedding.cols())) {
        let count = numbers.len() as f64;
        let mean = numbers.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
        let variance = numbers.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / count;
        for (c, bytes) in row.chunks_exact_mut(4).enumerate() {
            let normed = (f64::from(numbers[c]) - mean) / (variance + 1e-5).sqrt();
            let folded = normed * f64::from(scale[c]) + f64::from(bias[c]);
            bytes.copy_from_slice(&(folded as f32).to_le_bytes());
        }
    }
    let data = 8 + u64::from_le_bytes(*file.first_chunk().unwrap()) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&file[8..data]).unwrap();
    let tensors = header.as_object_mut().unwrap();
    for weight in [Weight::Ln0Scale, Weight::Ln0Bias] {
        tensors.remove(&weight.to_string()).unwrap();
    }
    let header = serde_json::to_vec(&header).unwrap();
    let folded = [&(header.len() as u64).to_le_bytes()[..], &header, &file[data..]].concat();
    std::fs::write(target, folded).unwrap();
}

/// A prompt, then tokens one by one.
fn run(engine: &mut Engine) -> Result {
    let text = tokens(1, 24);
    forget(engine, 0);
    let mut logits = engine.forward(&[all(0, &text[..20])]).unwrap().remove(0);
    for token in &text[20..] {
        let one = Sequence { slot: 0, tokens: std::slice::from_ref(token), outputs: Outputs::Last };
        logits.extend(engine.forward(&[one]).unwrap().remove(0));
    }
    (logits, engine.state(0).unwrap())
}

#[test]
fn a_folded_norm_is_the_norm_on_the_cpu() {
    let [plain, folded] = plain_and_folded(SHAPE).map(|model| run(&mut cpu(&model, 1)));
    assert_agree("the CPU", SHAPE.vocab, &folded, &plain, Tolerance::ROUNDING);
}

#[test]
fn a_folded_norm_is_the_norm_on_the_gpu() {
    let device = device();
    let [_, model] = plain_and_folded(SHAPE);
    assert!(!model.shape().embedding_norm);
    let want = run(&mut cpu(&model, 1));
    assert_agree("the default", SHAPE.vocab, &run(&mut gpu(&device, &model, 1)), &want, Tolerance::REFERENCE);
    for set in bindable(&device, [FusionSet::new(), Fusion::ALL.into()]) {
        let got = run(&mut fused(&device, &model, set.clone(), 1).unwrap());
        assert_agree(&format!("{set:?}"), SHAPE.vocab, &got, &want, Tolerance::REFERENCE);
    }
}
