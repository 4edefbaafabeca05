//! NaN and infinities: no op takes them for numbers, and what is wrong is named with its op and layer.

use crate::model::world::{SHAPE, all, cpu, device, fused, gpu, model};
use std::sync::Arc;
use wgoose_graph::{Format, FusionSet, ModelShape, Weight};
use wgoose_kernels::plan::bindable_fusions;
use wgoose_loader::Model;
use wgoose_loader::synth::Mix;
use wgoose_runtime::{Device, Engine, Outputs, Sequence};

/// Values of a tensor that are replaced.
const PLACES: [&str; 2] = ["first", "last"];

/// The model with one value of a weight replaced.
fn with_value(model: &Model, weight: Weight, place: &str, value: f32) -> Arc<Model> {
    let tensor = model.tensor(weight);
    let bytes = match tensor.format() {
        Format::F32 => value.to_le_bytes().to_vec(),
        Format::F16 => if value.is_nan() { 0x7e00u16 } else { 0x7c00 }.to_le_bytes().to_vec(),
        other => panic!("{weight} is {other}"),
    };
    let range = tensor.file_range().unwrap();
    let at = if place == "first" { range.start } else { range.end - bytes.len() };
    // The folder of the model is gone: its bytes are mapped.
    let mut file = vec![0; model.file_len()];
    model.read(0..file.len(), &mut file).unwrap();
    file[at..at + bytes.len()].copy_from_slice(&bytes);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broken.gguf");
    std::fs::write(&path, file).unwrap();
    Arc::new(Model::open(path).unwrap())
}

/// Weights of the last layer, which has all that layers have, and of no layer.
fn weights(shape: &ModelShape) -> impl Iterator<Item = Weight> {
    let last = shape.layers - 1;
    Weight::all(shape).filter(move |weight| !matches!(weight, Weight::Layer(layer, _) if *layer != last))
}

/// The first and the last token of the vocabulary, and others.
const TOKENS: [u32; 5] = [0, SHAPE.vocab - 1, 5, 17, 230];

/// Logits of a prompt, and of as many steps of decoding.
fn logits(engine: &mut Engine) -> Vec<f32> {
    let mut logits = engine.forward(&[all(0, &TOKENS)]).unwrap().remove(0);
    for token in TOKENS {
        logits.extend(engine.forward(&[Sequence { slot: 0, tokens: &[token], outputs: Outputs::Last }]).unwrap().remove(0));
    }
    logits
}

fn is_finite(logits: &[f32]) -> bool {
    logits.iter().all(|logit| logit.is_finite())
}

/// The engines that run a model: the CPU's, and a device's. What is at the beginning of a weight is run by the default plan and with all
/// fusions that the device can bind, what is at its end without any.
fn engines(device: &Arc<Device>, model: &Arc<Model>, place: &str) -> Vec<(&'static str, Engine)> {
    let mut engines = vec![("CPU", cpu(model, 1))];
    if place == "first" {
        let every = bindable_fusions(&SHAPE, device.limits());
        engines.push(("default", gpu(device, model, 1)));
        engines.push(("all fusions", fused(device, model, every, 1).unwrap()));
    } else {
        engines.push(("no fusions", fused(device, model, FusionSet::new(), 1).unwrap()));
    }
    engines
}

#[test]
fn nan_in_a_weight_reaches_the_logits_and_its_op_is_named() {
    let (device, whole) = (device(), model(Mix::F16));
    for weight in weights(&SHAPE) {
        for place in PLACES {
            let broken = with_value(&whole, weight, place, f32::NAN);
            for (name, mut engine) in engines(&device, &broken, place) {
                assert!(!is_finite(&logits(&mut engine)), "{weight}, {place}, {name}: NaN is swallowed");
                let found = engine.fork().unwrap().first_not_finite(0, &TOKENS).unwrap();
                let found = found.unwrap_or_else(|| panic!("{weight}, {place}, {name}: no op is named"));
                let layer = if let Weight::Layer(layer, _) = weight { Some(layer) } else { None };
                let is_before = matches!(weight, Weight::Embedding | Weight::Ln0Scale | Weight::Ln0Bias);
                // A fused op may be the first op of the layer behind.
                let is_there = found.layer == layer || (is_before && found.layer == Some(0));
                assert!(is_there, "{weight}, {place}, {name}: {found}");
            }
        }
    }
}

#[test]
fn an_infinity_that_reaches_the_logits_of_the_reference_reaches_all() {
    let (device, whole) = (device(), model(Mix::F16));
    let mut finite = Vec::new();
    for weight in weights(&SHAPE) {
        for place in PLACES {
            let broken = with_value(&whole, weight, place, f32::INFINITY);
            let mut engines = engines(&device, &broken, place).into_iter();
            let (_, mut reference) = engines.next().unwrap();
            if is_finite(&logits(&mut reference)) {
                finite.push(weight.to_string());
                continue;
            }
            for (name, mut engine) in engines {
                assert!(!is_finite(&logits(&mut engine)), "{weight}, {place}, {name}: an infinity is swallowed");
            }
        }
    }
    finite.dedup();
    // A sigmoid of an infinity is 0 or 1: the gate of whole models refuses the weight itself.
    println!("an infinity makes finite logits in {finite:?}");
    assert!(finite.len() <= 8, "{finite:?}");
}
