//! Profiles: every dispatch of the recording, times that add up, and an executor that still works afterwards.

use crate::model::world::{SHAPE, default_plan, device, model, model_of, tokens};
use std::sync::Arc;
use wgoose_graph::{BatchShape, ModelShape};
use wgoose_loader::Model;
use wgoose_loader::synth::Mix;
use wgoose_plans::catalogue;
use wgoose_runtime::{
    Batch, Device, DeviceOptions, Executor, GpuExecutor, Outputs, Profile, Residency, RuntimeError, Sequence, StateData,
};

const RUNS: usize = 3;

fn executor(device: &Arc<Device>, model: &Arc<Model>) -> GpuExecutor {
    let plan = default_plan(device, model);
    GpuExecutor::new(Arc::clone(device), Arc::clone(model), plan, catalogue::embedded(), 2).unwrap()
}

/// As many tokens in each of two sequences.
fn batch(each: usize) -> Batch {
    let tokens = [tokens(1, each), tokens(2, each)];
    let of = |slot: usize| Sequence { slot, tokens: &tokens[slot], outputs: Outputs::Last };
    Batch::pack(&[of(0), of(1)], SHAPE.vocab, 2).unwrap()
}

/// The lines of a recording without grids and bindings, and those of a profile.
fn lists(executor: &GpuExecutor, shape: &BatchShape, profile: &Profile) -> [Vec<(usize, String)>; 2] {
    let recording = executor.record(shape).unwrap();
    let label = |kernel: usize| recording.kernels[kernel].label.clone();
    [
        recording.dispatches.iter().map(|d| (d.node.index(), label(d.kernel))).collect(),
        profile.dispatches.iter().map(|d| (d.node.index(), d.kernel.clone())).collect(),
    ]
}

#[test]
fn a_profile_has_every_dispatch_and_its_times_add_up() {
    let (device, model) = (device(), model(Mix::F16));
    let mut profiled = executor(&device, &model);
    for each in [1, 9] {
        let batch = batch(each);
        let profile = profiled.profile(&batch, RUNS).unwrap();
        let [recorded, timed] = lists(&profiled, &batch.shape(), &profile);
        assert_eq!(timed, recorded);
        assert_eq!(profile.batch, batch.shape());
        for samples in [&profile.wall, &profile.gpu, &profile.independent] {
            assert!(samples.len() == RUNS && samples.iter().all(|ns| ns.is_finite() && *ns > 0.0), "{samples:?}");
        }
        assert!(profile.dispatches.iter().all(|d| d.ns.is_finite() && d.ns >= 0.0 && d.bytes > 0));
        let sum: f64 = profile.dispatches.iter().map(|d| d.ns).sum();
        assert!(sum > 0.0 && sum == profile.timestamped());
        // Every weight of the layers and of the head is read once, in f16 or f32.
        let bytes: u64 = profile.dispatches.iter().map(|d| d.bytes).sum();
        let weights = model.file_len() as u64 - u64::from(SHAPE.vocab * SHAPE.width) * 2;
        assert!(bytes > weights * 9 / 10, "{bytes} bytes are moved, the weights have {weights}");
        let flops: u64 = profile.dispatches.iter().map(|d| d.flops).sum();
        assert!(flops >= weights * u64::from(batch.shape().tokens) / 2, "{flops} operations");
        for layer in 0..SHAPE.layers {
            assert!(profile.dispatches.iter().any(|d| d.layer == Some(layer) && d.role.starts_with("att")));
        }
    }
    // Nothing is left behind but the states.
    for slot in 0..2 {
        profiled.set_state(slot, &StateData::zero(&SHAPE)).unwrap();
    }
    let batch = batch(1);
    assert!(profiled.run(&batch).unwrap() == executor(&device, &model).run(&batch).unwrap());
}

#[test]
fn row_shards_share_the_cost_of_their_op() {
    let model = model_of(ModelShape { vocab: 1999, ..SHAPE }, Mix::F16);
    let small = Device::open_limited(&DeviceOptions::default(), &|l| l.storage_binding = 1 << 16).unwrap();
    let whole = executor(&device(), &model).profile(&batch(1), 1).unwrap();
    // One sequence: the states of two do not fit.
    let plan = default_plan(&small, &model);
    let mut one = GpuExecutor::new(small, Arc::clone(&model), plan, catalogue::embedded(), 1).unwrap();
    let sequence = Sequence { slot: 0, tokens: &[1], outputs: Outputs::Last };
    let shards = one.profile(&Batch::pack(&[sequence], SHAPE.vocab, 1).unwrap(), 1).unwrap();
    assert!(shards.dispatches.len() > whole.dispatches.len());
    let head = |p: &Profile| {
        let own: Vec<_> = p.dispatches.iter().filter(|d| d.role == "head").cloned().collect();
        (own.len(), own.iter().map(|d| d.flops).sum::<u64>())
    };
    let ((one, two_rows), (several, one_row)) = (head(&whole), head(&shards));
    assert!(one == 1 && several > 1);
    assert!(two_rows.abs_diff(2 * one_row) <= 2 * several as u64, "{two_rows} for two rows, {one_row} for one");
}

#[test]
fn streamed_weights_are_refused() {
    let (device, model) = (device(), model(Mix::F16));
    let budgeted = |budget| {
        let mut executor = executor(&device, &model);
        executor.set_residency(Residency::Budget(budget)).map(|()| executor)
    };
    let Err(RuntimeError::BudgetTooSmall { need, .. }) = budgeted(1) else { panic!("one byte was enough") };
    let refusal = budgeted(need).unwrap().profile(&batch(1), 1).unwrap_err();
    assert!(matches!(refusal, RuntimeError::Streamed), "{refusal}");
}
