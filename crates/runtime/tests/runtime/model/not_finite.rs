//! NaN and infinities: no op takes them for numbers, and what is wrong is named with its op and layer. A persistent kernel is compared
//! with its stages before it is used, where NaN is no agreement: with such weights the stages run.

use crate::model::world::{SHAPE, all, cpu, device, fused, model};
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
        logits.extend(
            engine.forward(&[Sequence { slot: 0, tokens: &[token], outputs: Outputs::Last }]).unwrap().remove(0),
        );
    }
    logits
}

fn is_finite(logits: &[f32]) -> bool {
    logits.iter().all(|logit| logit.is_finite())
}

/// The engines that run a model: the CPU's, and a device's. What is at the beginning of a weight is run with all
/// fusions that the device can bind, what is at its end without any.
fn engines(device: &Arc<Device>, model: &Arc<Model>, place: &str) -> [(&'static str, Engine); 2] {
    let on_device = match place {
        "first" => ("all fusions", fused(device, model, bindable_fusions(&SHAPE, device.limits()), 1).unwrap()),
        _ => ("no fusions", fused(device, model, FusionSet::new(), 1).unwrap()),
    };
    [("CPU", cpu(model, 1)), on_device]
}

#[test]
fn nan_in_a_weight_reaches_the_logits_and_its_op_is_named() {
    let (device, whole) = (device(), model(Mix::F16));
    for (number, weight) in weights(&SHAPE).enumerate() {
        for place in PLACES {
            let broken = with_value(&whole, weight, place, f32::NAN);
            for (name, mut engine) in engines(&device, &broken, place) {
                assert!(!is_finite(&logits(&mut engine)), "{weight}, {place}, {name}: NaN is swallowed");
                // A trace of the device takes as long again.
                if name != "CPU" && number % 6 > 0 {
                    continue;
                }
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
fn an_infinity_in_the_logits_of_the_reference_reaches_every_engine() {
    let (device, whole) = (device(), model(Mix::F16));
    let mut finite = Vec::new();
    for weight in weights(&SHAPE) {
        for place in PLACES {
            let broken = with_value(&whole, weight, place, f32::INFINITY);
            let [(_, mut reference), (name, mut engine)] = engines(&device, &broken, place);
            if is_finite(&logits(&mut reference)) {
                finite.push(weight.to_string());
                continue;
            }
            assert!(!is_finite(&logits(&mut engine)), "{weight}, {place}, {name}: an infinity is swallowed");
        }
    }
    // What is made of these goes through a sigmoid, which is 0 or 1 then: the gate of whole models refuses the weight
    // itself.
    let bounded = ["x_rwkvag", "w0", "w1", "w2", "a0", "a1", "a2", "v0", "v1", "v2", "g1"];
    let is_bounded = |weight: &String| bounded.iter().any(|name| weight.ends_with(&format!(".att.{name}")));
    assert!(finite.iter().all(is_bounded), "{finite:?}");
}
