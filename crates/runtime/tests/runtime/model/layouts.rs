//! Weights that the device repacks give the same numbers as weights in the file's layout.

use crate::model::numbers::{Tolerance, assert_agree};
use crate::model::world::{SHAPE, all, default_plan, device, model, tokens};
use std::sync::Arc;
use wgoose_graph::{Format, LayerWeight};
use wgoose_kernels::{Limits, Plan};
use wgoose_loader::Model;
use wgoose_loader::synth::Mix;
use wgoose_plans::catalogue;
use wgoose_runtime::{Device, DeviceOptions, Engine, GpuExecutor, Residency, RuntimeError};

/// Logits of 40 tokens, read eight at a time and the last eight one by one, the state after them, and the bytes
/// uploaded.
fn run_k_major(
    device: &Arc<Device>,
    model: &Arc<Model>,
    k_major: &[LayerWeight],
    residency: Residency,
) -> Result<((Vec<f32>, wgoose_runtime::StateData), u64), RuntimeError> {
    let plan = Plan { k_major: k_major.iter().copied().collect(), ..default_plan(device, model) };
    let mut executor = GpuExecutor::new(Arc::clone(device), Arc::clone(model), plan, catalogue::embedded(), 1)?;
    executor.set_residency(residency)?;
    let mut engine = Engine::new(Box::new(executor), 8);
    let tokens = tokens(9, 40);
    let (prompt, last) = tokens.split_at(32);
    let mut logits = engine.forward(&[all(0, prompt)])?.remove(0);
    for token in last {
        logits.extend(engine.forward(&[all(0, &[*token])])?.remove(0));
    }
    Ok(((logits, engine.state(0)?), engine.report().uploaded))
}

#[test]
fn k_major_agrees_under_every_residency() {
    for mix in [Mix::F16, Mix::Q8_0, Mix::Q4_0, Mix::Q4_K_M, Mix::Q6_K] {
        let (device, model) = (device(), model(mix));
        let k_major = [LayerWeight::FfnValue];
        let (want, bytes) = run_k_major(&device, &model, &[], Residency::Lazy).unwrap();
        let (lazy, uploaded) = run_k_major(&device, &model, &k_major, Residency::Lazy).unwrap();
        assert_agree(&format!("{mix}"), SHAPE.vocab, &lazy, &want, Tolerance::ROUNDING);
        assert_eq!(uploaded, bytes, "{mix}: the width is a multiple of eight");
        let need = match run_k_major(&device, &model, &k_major, Residency::Budget(1)) {
            Err(RuntimeError::BudgetTooSmall { need, .. }) => need,
            other => panic!("{other:?}"),
        };
        for residency in [Residency::Eager, Residency::Budget(need)] {
            let (got, _) = run_k_major(&device, &model, &k_major, residency).unwrap();
            assert!(got == lazy, "{mix} {residency:?}");
        }
    }
}

#[test]
fn k_major_agrees_in_row_shards() {
    let restrict = |limits: &mut Limits| limits.storage_binding = 1 << 16;
    let little = Device::open_limited(&DeviceOptions::default(), &restrict).unwrap();
    let model = model(Mix::F16);
    let k_major = [LayerWeight::FfnValue];
    let (want, _) = run_k_major(&little, &model, &[], Residency::Lazy).unwrap();
    let (got, _) = run_k_major(&little, &model, &k_major, Residency::Lazy).unwrap();
    assert_agree("shards", SHAPE.vocab, &got, &want, Tolerance::ROUNDING);
}

fn run(
    device: &Arc<Device>,
    model: &Arc<Model>,
    interleave: &[Format],
    residency: Residency,
) -> Result<(Vec<f32>, u64), RuntimeError> {
    let plan = Plan { interleave: interleave.iter().copied().collect(), ..default_plan(device, model) };
    let mut executor = GpuExecutor::new(Arc::clone(device), Arc::clone(model), plan, catalogue::embedded(), 1)?;
    executor.set_residency(residency)?;
    let mut engine = Engine::new(Box::new(executor), 8);
    let tokens = tokens(9, 40);
    let logits = engine.forward(&[all(0, &tokens)])?.remove(0);
    Ok((logits, engine.report().uploaded))
}

#[test]
fn interleaving_changes_no_bit_wherever_weights_are() {
    for (mix, formats) in [(Mix::Q8_0, [Format::Q8_0]), (Mix::Q4_0, [Format::Q4_0]), (Mix::Q4_K_M, [Format::Q6_K])] {
        let (device, model) = (device(), model(mix));
        let (want, bytes) = run(&device, &model, &[], Residency::Lazy).unwrap();
        let (lazy, interleaved_bytes) = run(&device, &model, &formats, Residency::Lazy).unwrap();
        assert!(lazy == want, "{mix:?}");
        // The last eight blocks of a matrix may be filled up.
        assert!(
            interleaved_bytes >= bytes && interleaved_bytes < bytes + bytes / 50,
            "{bytes}, repacked {interleaved_bytes}"
        );
        let need = match run(&device, &model, &formats, Residency::Budget(1)) {
            Err(RuntimeError::BudgetTooSmall { need, .. }) => need,
            other => panic!("{other:?}"),
        };
        for residency in [Residency::Eager, Residency::Budget(need)] {
            let (got, _) = run(&device, &model, &formats, residency).unwrap();
            assert!(got == lazy, "{mix:?} {residency:?}");
        }
    }
}

#[test]
fn every_shard_is_interleaved_on_its_own() {
    let restrict = |limits: &mut Limits| limits.storage_binding = 1 << 16;
    let little = Device::open_limited(&DeviceOptions::default(), &restrict).unwrap();
    let model = model(Mix::Q8_0);
    let (want, _) = run(&device(), &model, &[Format::Q8_0], Residency::Lazy).unwrap();
    let (got, _) = run(&little, &model, &[Format::Q8_0], Residency::Lazy).unwrap();
    assert!(got == want);
}
