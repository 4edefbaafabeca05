//! The engine driver: what it does in the time that it takes.

use std::sync::Arc;
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_kernels::Plan;
use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write as synthesize};
use wgoose_loader::{Container, Model};
use wgoose_measure::driver::{Begin, Chooser, Drive, decode, prefill, prompts, read, settle, write};
use wgoose_plans::catalogue;
use wgoose_runtime::{Device, Engine, GpuExecutor, StateData};

/// Sequences of the engine.
const SEQUENCES: usize = 3;

fn engine(folder: &tempfile::TempDir) -> Engine {
    let ranks = LoraRanks { decay: 16, iclr: 16, value: 16, gate: 16 };
    let shape = ModelShape {
        layers: 2,
        width: 64,
        ffn: 128,
        head_size: 64,
        vocab: 96,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    };
    let (container, mix) = (Container::Gguf, Mix::F16);
    let options = SynthOptions { shape, seed: 5, container, mix, hot: false, ffn_zeros: None, vocabulary: None };
    let path = folder.path().join("model.gguf");
    synthesize(&options, &path, &mut unwatched).unwrap();
    let (device, model) = (Device::open(None).unwrap(), Arc::new(Model::open(path).unwrap()));
    let plan = Plan::default_for(device.fingerprint().clone(), shape, device.limits());
    let chunk = plan.prefill_chunk as usize;
    let executor = GpuExecutor::new(device, model, plan, catalogue::embedded(), SEQUENCES).unwrap();
    Engine::new(Box::new(executor), chunk)
}

fn states(engine: &mut Engine) -> Vec<StateData> {
    (0..SEQUENCES).map(|slot| engine.state(slot).unwrap()).collect()
}

#[test]
fn the_host_writes_what_the_device_writes() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = engine(&folder);
    let prompts = prompts(SEQUENCES, 5, engine.shape().vocab);
    let start: Vec<u32> = prompts.iter().map(|prompt| prompt[0]).collect();
    for after_prompts in [false, true] {
        let ended = [Chooser::Device, Chooser::Host].map(|chooser| {
            settle(&mut engine, SEQUENCES, None).unwrap();
            let logits = after_prompts.then(|| read(&mut engine, 0, &prompts).unwrap().logits);
            let begin = logits.as_deref().map_or(Begin::Tokens(&start), Begin::Logits);
            let written = write(&mut engine, 0, begin, 7, &Drive { chooser, ..Drive::default() }).unwrap();
            assert!(written.first_ns > 0.0 && written.first_ns <= written.ns, "{written:?}");
            assert_eq!(written.report.map(|report| report.rounds), (chooser == Chooser::Device).then_some(7));
            states(&mut engine)
        });
        assert!(ended[0] == ended[1], "after prompts: {after_prompts}");
    }
}

#[test]
fn every_run_begins_with_empty_states() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = engine(&folder);
    let prompts = prompts(SEQUENCES, 9, engine.shape().vocab);
    let twice = [(); 2].map(|()| prefill(&mut engine, &prompts).unwrap().logits);
    assert_eq!(twice[0], twice[1]);
    assert_ne!(twice[0][0], twice[0][1], "the prompts differ");
    let written = [(); 2].map(|()| {
        decode(&mut engine, SEQUENCES, 6).unwrap();
        states(&mut engine)
    });
    assert!(written[0] == written[1]);
}
