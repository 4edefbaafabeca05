//! Lazy, eager and within a budget: the same bits, whatever is where at the time.

use crate::model::world::{SHAPE, all, default_plan, device, model, tokens};
use std::sync::Arc;
use wgoose_graph::{FusionSet, ModelShape};
use wgoose_kernels::plan::Fusions;
use wgoose_kernels::{Plan, StateFormat};
use wgoose_loader::Model;
use wgoose_loader::synth::Mix;
use wgoose_plans::catalogue;
use wgoose_runtime::{Device, Engine, GpuExecutor, LoadReport, Outputs, Residency, RuntimeError, Sequence, StateData};

fn executor(device: &Arc<Device>, model: &Arc<Model>, residency: Residency) -> Result<GpuExecutor, RuntimeError> {
    let plan = default_plan(device, model);
    let mut executor = GpuExecutor::new(Arc::clone(device), Arc::clone(model), plan, catalogue::embedded(), 2)?;
    executor.set_residency(residency)?;
    Ok(executor)
}

/// A prompt in pieces, single tokens, another sequence beside it: every logit, the states, and what it took.
fn run(executor: GpuExecutor) -> (Vec<Vec<f32>>, [StateData; 2], LoadReport) {
    let mut engine = Engine::new(Box::new(executor), 32);
    let (a, b) = (tokens(3, 75), tokens(4, 5));
    let mut logits = engine.forward(&[all(0, &a), Sequence { slot: 1, tokens: &b, outputs: Outputs::Last }]).unwrap();
    for token in tokens(5, 3) {
        logits.extend(engine.forward(&[all(1, &[token])]).unwrap());
    }
    let states = [engine.state(0).unwrap(), engine.state(1).unwrap()];
    (logits, states, engine.report())
}

/// The smallest budget that a model runs in.
fn smallest(device: &Arc<Device>, model: &Arc<Model>) -> u64 {
    match executor(device, model, Residency::Budget(1)) {
        Err(RuntimeError::BudgetTooSmall { budget: 1, need }) => need,
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("a budget of one byte was enough"),
    }
}

#[test]
fn the_residency_of_weights_changes_no_bit() {
    for mix in [Mix::F16, Mix::Q4_K_M] {
        let (device, model) = (device(), model(mix));
        let (logits, states, lazy) = run(executor(&device, &model, Residency::Lazy).unwrap());
        let (eager_logits, eager_states, eager) = run(executor(&device, &model, Residency::Eager).unwrap());
        assert!(eager_logits == logits && eager_states == states);
        assert_eq!(eager.uploaded, lazy.uploaded, "everything once");
        let least = smallest(&device, &model);
        for more in [0, 300_000, 1 << 20, 1 << 30] {
            let device = Device::open(None).unwrap();
            let executor = executor(&device, &model, Residency::Budget(least + more)).unwrap();
            let (budgeted_logits, budgeted_states, report) = run(executor);
            assert!(budgeted_logits == logits, "{more} more bytes than needed");
            assert!(budgeted_states == states, "{more} more bytes than needed");
            match more {
                0 => assert!(report.uploaded > 2 * lazy.uploaded, "weights pass through"),
                0x4000_0000 => assert_eq!(report.uploaded, lazy.uploaded, "there is room for all"),
                _ => assert!(report.uploaded >= lazy.uploaded),
            }
            let used = report.device.map_or(0, |d| d.used);
            assert!(used <= least + more, "{used} bytes in use, {} allowed", least + more);
            assert!(report.footprint.on_device() <= least + more, "{:?}", report.footprint);
        }
    }
}

/// Two prompts in one pass of 64 tokens, then two tokens in one.
fn largest_passes(executor: GpuExecutor) -> LoadReport {
    let mut engine = Engine::new(Box::new(executor), 64);
    let tokens = tokens(1, 64);
    let prompts = [
        Sequence { slot: 0, tokens: &tokens[..40], outputs: Outputs::Last },
        Sequence { slot: 1, tokens: &tokens[40..], outputs: Outputs::Last },
    ];
    engine.forward(&prompts).unwrap();
    engine.forward(&[all(0, &[1]), all(1, &[2])]).unwrap();
    engine.report()
}

#[test]
fn predicted_memory_equals_measured_memory() {
    let device = device();
    for (mix, state, is_fused) in
        [(Mix::Q4_K_M, StateFormat::F32, true), (Mix::F16, StateFormat::F16, true), (Mix::F16, StateFormat::F32, false)]
    {
        let model = model(mix);
        let plan = Plan { state, ..default_plan(&device, &model) };
        let plan = if is_fused { plan } else { Plan { fusions: Fusions::all(FusionSet::new()), ..plan } };
        let executor = |residency| {
            let (device, model) = (Arc::clone(&device), Arc::clone(&model));
            let mut executor = GpuExecutor::new(device, model, plan.clone(), catalogue::embedded(), 2).unwrap();
            executor.set_residency(residency).map(|()| executor)
        };
        let least = match executor(Residency::Budget(1)) {
            Err(RuntimeError::BudgetTooSmall { need, .. }) => need,
            other => panic!("{:?}", other.map(|_| ())),
        };
        for residency in
            [Residency::Lazy, Residency::Eager, Residency::Budget(least), Residency::Budget(least + (1 << 20))]
        {
            let executor = executor(residency).unwrap();
            let predicted = executor.predict().unwrap();
            let measured = largest_passes(executor).footprint;
            assert_eq!(measured.mapped, model.file_len() as u64);
            let is_budget = matches!(residency, Residency::Budget(_));
            for ((part, predicted), (_, measured)) in predicted.parts().into_iter().zip(measured.parts()) {
                let is_as_predicted = match part {
                    // The first weights that fit stay, and may leave a gap; few jobs need few staging buffers.
                    "weights" | "upload staging" if is_budget => measured <= predicted,
                    // Given back once everything is there.
                    "upload staging" => measured == 0,
                    _ => measured == predicted,
                };
                assert!(is_as_predicted, "{mix:?}, {residency:?}, {part}: {predicted} predicted, {measured} measured");
            }
        }
    }
}

#[test]
fn a_layer_of_a_larger_model_passes_while_the_next_arrives() {
    let shape = ModelShape { layers: 7, ..SHAPE };
    let (device, model) = (device(), crate::model::world::model_of(shape, Mix::Q8_0));
    let (logits, states, _) = run(executor(&device, &model, Residency::Lazy).unwrap());
    let least = smallest(&device, &model);
    let (streamed, streamed_states, report) = run(executor(&device, &model, Residency::Budget(least)).unwrap());
    assert!(streamed == logits && streamed_states == states);
    assert!(report.footprint.ring > 0 && report.footprint.weights < report.footprint.ring);
}
