//! RWKV-7a: a model with DeepEmbed runs in every form in which one without it does.

use crate::model::numbers::{Result, Tolerance, assert_agree};
use crate::model::persistent::{engine, step_by_step, with_stages};
use crate::model::world::{SHAPE, all, cpu, default_plan, device, fused, model_of, read, tokens};
use std::sync::Arc;
use wgoose_graph::{Fusion, FusionSet, Level, ModelShape};
use wgoose_kernels::Plan;
use wgoose_kernels::plan::Fusions;
use wgoose_loader::Model;
use wgoose_loader::synth::Mix;
use wgoose_plans::catalogue;
use wgoose_runtime::CancelToken;
use wgoose_runtime::{
    Device, DeviceOptions, Engine, GpuExecutor, NotPersistent, PersistentStatus, Residency, RuntimeError,
};

/// Of the sizes of the plain model, so that DeepEmbed alone makes the difference.
const DEEP: ModelShape = ModelShape { deep_embed: Some(8), ..SHAPE };

fn deep() -> Arc<Model> {
    model_of(DEEP, Mix::F16)
}

/// A prompt over several passes, then single tokens.
fn run(engine: &mut Engine) -> Result {
    let tokens = tokens(0, 26);
    let parts = [&tokens[..20], &tokens[20..23], &tokens[23..24], &tokens[24..25], &tokens[25..]];
    let logits = parts.iter().flat_map(|part| read(engine, part)).collect();
    (logits, engine.state(0).unwrap())
}

#[test]
fn deep_embed_agrees_with_the_reference() {
    let (model, device) = (deep(), device());
    let reference = run(&mut cpu(&model, 1));
    let plain = run(&mut cpu(&model_of(SHAPE, Mix::F16), 1));
    assert_ne!(reference, plain, "the other weights are the same numbers");
    // The fusions that reach its ops: the others are those of the plain model.
    for fusions in [FusionSet::new(), FusionSet::from([Fusion::MatmulActivation, Fusion::MatmulResidual])] {
        let what = format!("RWKV-7a with {fusions:?}");
        let got = run(&mut fused(&device, &model, fusions, 1).unwrap());
        assert_agree(&what, SHAPE.vocab, &got, &reference, Tolerance::REFERENCE);
    }
}

#[test]
fn deep_embed_in_a_batch_agrees_with_single_sequences() {
    let (model, device) = (deep(), device());
    let texts = [tokens(1, 19), tokens(2, 1), tokens(3, 7)];
    let mut together = fused(&device, &model, FusionSet::new(), texts.len()).unwrap();
    let sequences: Vec<_> = texts.iter().enumerate().map(|(slot, text)| all(slot, text)).collect();
    let rows = together.forward(&sequences).unwrap();
    for (slot, text) in texts.iter().enumerate() {
        let mut alone = cpu(&model, 1);
        let want = (read(&mut alone, text), alone.state(0).unwrap());
        let got = (rows[slot].clone(), together.state(slot).unwrap());
        assert_agree(&format!("sequence {slot}"), SHAPE.vocab, &got, &want, Tolerance::REFERENCE);
    }
    // A state that is put back goes on as it would have: DeepEmbed keeps nothing of its own.
    let state = together.state(0).unwrap();
    let want = together.forward(&[all(0, &[5, 6])]).unwrap();
    together.set_state(1, &state).unwrap();
    assert_eq!(together.forward(&[all(1, &[5, 6])]).unwrap(), want);
}

#[test]
fn deep_embed_takes_part_in_hidden_states() {
    let (model, device) = (deep(), device());
    let text = tokens(4, 17);
    for level in [Level::Final, Level::Layer(0)] {
        let mean = |mut engine: Engine| {
            engine.hidden_mean(&[all(0, &text)], level, &CancelToken::default()).unwrap().remove(0)
        };
        let unfused = fused(&device, &model, FusionSet::new(), 1).unwrap();
        let (got, want) = (mean(unfused), mean(cpu(&model, 1)));
        let difference: f32 = got.iter().zip(&want).map(|(got, want)| (got - want).powi(2)).sum();
        let size: f32 = want.iter().map(|want| want.powi(2)).sum();
        assert!((difference / size).sqrt() < 1e-4, "{level:?}");
    }
}

#[test]
fn tables_of_deep_embed_are_bound_in_row_shards() {
    // A table has 1999 rows of 128 bytes, a binding 64 KiB.
    let model = model_of(ModelShape { vocab: 1999, ..DEEP }, Mix::F16);
    let small = Device::open_limited(&DeviceOptions::default(), &|limits| limits.storage_binding = 1 << 16).unwrap();
    let run = |device: &Arc<Device>| {
        let mut engine = fused(device, &model, FusionSet::new(), 1).unwrap().with_chunk(8);
        // Rows of every shard.
        let tokens: Vec<u32> = (0..20).map(|i| i * 100 + 7).collect();
        (read(&mut engine, &tokens), engine.state(0).unwrap())
    };
    assert!(run(&small) == run(&device()));
}

#[test]
fn tables_of_deep_embed_pass_through_a_budget() {
    let (model, device) = (deep(), device());
    let executor = |residency| {
        let plan = default_plan(&device, &model);
        let mut executor =
            GpuExecutor::new(Arc::clone(&device), Arc::clone(&model), plan, catalogue::embedded(), 1).unwrap();
        executor.set_residency(residency).map(|()| executor)
    };
    let least = match executor(Residency::Budget(1)) {
        Err(RuntimeError::BudgetTooSmall { need, .. }) => need,
        other => panic!("{:?}", other.map(|_| ())),
    };
    let run = |residency| {
        let mut engine = Engine::new(Box::new(executor(residency).unwrap()), 32);
        let result = run(&mut engine);
        (result, engine.report().uploaded)
    };
    let (want, once) = run(Residency::Eager);
    let (got, streamed) = run(Residency::Budget(least));
    assert!(got == want);
    assert!(streamed > 2 * once, "weights pass through");
}

#[test]
fn deep_embed_decodes_with_a_megakernel_or_says_why_not() {
    let (model, device) = (model_of(ModelShape { layers: 3, ..DEEP }, Mix::F16), device());
    let fusions = Fusions::all(FusionSet::new());
    let chain = with_stages(&device, &model, Plan { fusions, ..default_plan(&device, &model) });
    let persistent = Plan { persistent: Some(1), ..chain.clone() };
    let text = tokens(3, 6);
    let want = step_by_step(&mut engine(&device, &model, chain), &text);
    let mut fused = engine(&device, &model, persistent);
    assert_eq!(step_by_step(&mut fused, &text), want);
    let form = fused.report().persistent;
    println!("{form:?}");
    match form {
        Some(PersistentStatus::Used { .. }) => {}
        Some(PersistentStatus::Refused(NotPersistent::Unfused(why))) => eprintln!("a chain of dispatches: {why}"),
        other => panic!("{other:?}"),
    }
}
