//! A whole sweep of a small model: what it says, what it keeps, what it hands over.

#![allow(clippy::unwrap_used)] // a failed helper is a failed test

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_kernels::{Catalogue, Plan, Precision};
use wgoose_loader::synth::{Mix, SynthOptions, write};
use wgoose_loader::{Container, Model};
use wgoose_runtime::{Device, Engine, Outputs, Sequence};
use wgoose_tuner::ledger;
use wgoose_tuner::sweep::{Candidate, Event, Stage, Step, SweepError, SweepOptions, sweep};

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
        begun: Instant::now(),
        budget: Duration::from_secs(12),
        exhaustive: false,
        chunks: vec![16],
        prompts: vec![24],
        persistent: true,
        sequences: None,
        catalogue: Catalogue::embedded(),
        allowed: Precision::Q15,
    };
    // A listener stops it; what was measured until then is in the ledger.
    let stopped = sweep(&device, &model, &options, &mut |event| match event {
        Event::Done(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(stopped, Err(SweepError::Stopped)), "{stopped:?}");
    let (records, notices) = ledger::read(&options.ledger).unwrap();
    assert!(records.as_slice().len() == 1 && notices.is_empty(), "{records:?} {notices:?}");

    let (mut stages, mut steps) = (Vec::new(), Vec::new());
    let first = sweep(&device, &model, &options, &mut |event| {
        match event {
            Event::Stage { stage, .. } => stages.push(stage),
            Event::Done(step) => steps.push(step),
            Event::Note(_) => {}
        }
        ControlFlow::Continue(())
    });
    let first = first.unwrap();
    use Stage::{Confirm, Costs, Kernels, Persistent, Reference, Structure};
    assert_eq!(stages, [Reference, Structure, Costs, Kernels, Persistent, Confirm]);
    let compared = |is: &dyn Fn(&Candidate) -> bool| {
        steps.iter().any(|step| matches!(step, Step::Compared { candidate, .. } if is(candidate)))
    };
    assert!(compared(&|candidate| matches!(candidate, Candidate::PerOp { .. })), "{steps:?}");
    assert!(compared(&|candidate| matches!(candidate, Candidate::Persistent { .. })), "{steps:?}");
    assert!(!steps.iter().any(|step| matches!(step, Step::Wrong { .. })), "{steps:?}");
    assert!(first.recalled >= 1, "the gate of the default plan was measured twice");
    assert!(first.measured > 10, "{} measured", first.measured);

    // What was measured is not measured again.
    let again = sweep(&device, &model, &options, &mut |_| ControlFlow::Continue(())).unwrap();
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
