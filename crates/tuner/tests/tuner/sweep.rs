//! A whole sweep of a small model on a device: the records it keeps and the plan it returns. `search.rs` tests the
//! quality of searches.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_kernels::{Plan, Precision};
use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write};
use wgoose_loader::{Container, Model};
use wgoose_measure::ledger::{self, Outcome};
use wgoose_plans::catalogue;
use wgoose_runtime::CancelToken;
use wgoose_runtime::{Device, Engine, Outputs, Sequence};
use wgoose_tuner::sweep::{Event, Part, STRATEGIES, SweepError, SweepOptions, sweep};

#[test]
fn a_sweep_leaves_a_plan_and_a_ledger_to_go_on_from() {
    let folder = tempfile::tempdir().unwrap();
    let ranks = LoraRanks { decay: 64, iclr: 64, value: 32, gate: 128 };
    let shape = ModelShape {
        layers: 2,
        width: 128,
        ffn: 256,
        head_size: 64,
        vocab: 256,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    };
    let (container, mix) = (Container::Gguf, Mix::F16);
    let options = SynthOptions { shape, seed: 5, container, mix, hot: false, ffn_zeros: None, vocabulary: None };
    let path = folder.path().join("model.gguf");
    write(&options, &path, &mut unwatched).unwrap();
    let (device, model) = (Device::open(None).unwrap(), Arc::new(Model::open(path).unwrap()));
    let options = SweepOptions {
        ledger: folder.path().join("ledger.jsonl"),
        begun: Instant::now(),
        budget: Duration::from_secs(3600),
        parts: Part::ALL.into(),
        exhaustive: false,
        chunks: vec![16],
        objective: "(name: \"test\", parts: [(tokens: 1), (tokens: 24)])".parse().unwrap(),
        persistent: true,
        catalogue: catalogue::embedded(),
        allowed: Precision::Q15,
        child: None,
        strategy: STRATEGIES[0],
        in_use: None,
        seeds: Vec::new(),
        hints: Vec::new(),
        cancel: CancelToken::default(),
    };
    // A listener stops it; what was measured until then is in the ledger.
    let stopped = sweep(&device, &model, &options, &mut |event| match event {
        Event::Done(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(stopped, Err(SweepError::Stopped)), "{stopped:?}");
    let (records, notices) = ledger::read(&options.ledger).unwrap();
    let timed = records.trials().filter(|(_, trial)| trial.outcome.is_known()).count();
    assert!(timed >= 1 && notices.is_empty(), "{records:?} {notices:?}");

    let options = SweepOptions { begun: Instant::now(), budget: Duration::from_secs(8), ..options };
    let swept = sweep(&device, &model, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(swept.recalled >= timed, "the first step was measured twice");
    let (records, _) = ledger::read(&options.ledger).unwrap();
    let kernels = records.trials().filter(|(_, trial)| trial.identity.tried.name() == "kernel");
    let wrong = kernels.filter(|(_, trial)| matches!(trial.outcome, Outcome::Failed(_)));
    assert_eq!(wrong.count(), 0, "{records:?}");

    // The plan is one that another process can use.
    let saved = folder.path().join("plan.ron");
    swept.plan.save(&saved).unwrap();
    let plan = Plan::load(&saved).unwrap();
    assert_eq!(plan.hash(), swept.plan.hash());
    assert_eq!(plan.evidence.as_ref().unwrap().quality_hash.len(), 16);
    let mut engine = Engine::gpu(device, model, plan, catalogue::embedded(), 1).unwrap();
    let logits = engine.forward(&[Sequence { slot: 0, tokens: &[1, 2, 3], outputs: Outputs::Last }]).unwrap();
    assert_eq!(logits[0].len(), 256);
}
