//! A whole sweep of a small model: what it says, what it keeps, what it hands over.

#![allow(clippy::unwrap_used)] // a failed helper is a failed test

use std::sync::Arc;
use std::time::Duration;
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_kernels::{Catalogue, Plan, Precision};
use wgoose_loader::synth::{Mix, SynthOptions, write};
use wgoose_loader::{Container, Model};
use wgoose_runtime::{Device, Engine, Outputs, Sequence};
use wgoose_tuner::sweep::{Event, SweepOptions, sweep};

#[test]
fn a_sweep_tries_every_form_and_an_interrupted_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let ranks = LoraRanks { decay: 64, iclr: 64, value: 32, gate: 128 };
    let shape = ModelShape { layers: 2, width: 128, ffn: 256, head_size: 64, vocab: 256, ranks };
    let (container, mix) = (Container::Gguf, Mix::F16);
    let options = SynthOptions { shape, seed: 5, container, mix, hot: false, ffn_zeros: None, vocabulary: None };
    let path = folder.path().join("model.gguf");
    write(&options, &path, &|_, _| {}).unwrap();
    let (device, model) = (Device::open(None).unwrap(), Arc::new(Model::open(path).unwrap()));
    let options = SweepOptions {
        ledger: folder.path().join("ledger.jsonl"),
        budget: Duration::from_secs(3),
        exhaustive: false,
        chunks: vec![16],
        sequences: None,
        catalogue: Catalogue::embedded(),
        allowed: Precision::Q15,
    };
    let mut told = Vec::new();
    let first = sweep(&device, &model, &options, &mut |event| {
        told.push(match event {
            Event::Stage(name, _) => name.to_owned(),
            Event::Done(text) | Event::Notice(text) => text,
        });
    });
    let first = first.unwrap();
    let told = told.join("\n");
    for stage in [
        "layouts, chunk and fusions",
        "kernels",
        "persistent kernels",
        "one dispatch per op: ",
        "as persistent kernels: ",
    ] {
        assert!(told.contains(stage), "{stage} is not in\n{told}");
    }
    assert!(!told.contains("WRONG"), "{told}");
    assert!(first.measured > 10, "{} measured", first.measured);

    // What was measured is not measured again.
    let again = sweep(&device, &model, &options, &mut |_| {}).unwrap();
    assert!(again.recalled >= 10, "{} recalled, {} measured", again.recalled, again.measured);

    // The plan is one that another process can use.
    let saved = folder.path().join("plan.ron");
    first.plan.save(&saved).unwrap();
    let plan = Plan::load(&saved).unwrap();
    assert_eq!(plan.hash(), first.plan.hash());
    assert_eq!(plan.evidence.as_ref().unwrap().quality_hash.len(), 16);
    let mut engine = Engine::gpu(device, model, plan, Catalogue::embedded(), 1).unwrap();
    let logits = engine.forward(&[Sequence { slot: 0, tokens: &[1, 2, 3], outputs: Outputs::Last }]).unwrap();
    assert_eq!(logits[0].len(), 256);
}
