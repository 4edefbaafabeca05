//! Blocks that the device brings into tiles give the numbers that they give as they lie in the file.

use crate::world::{all, default_plan, device, model, tokens};
use std::sync::Arc;
use wgoose_graph::Format;
use wgoose_kernels::{Limits, Plan, Sources};
use wgoose_loader::Model;
use wgoose_loader::synth::Mix;
use wgoose_runtime::{Device, DeviceOptions, Engine, GpuExecutor, Residency, RuntimeError};

fn run(
    device: &Arc<Device>,
    model: &Arc<Model>,
    repack: &[Format],
    residency: Residency,
) -> Result<(Vec<f32>, u64), RuntimeError> {
    let plan = Plan { repack: repack.iter().copied().collect(), ..default_plan(device, model) };
    let mut executor = GpuExecutor::new(Arc::clone(device), Arc::clone(model), plan, Sources::Embedded, 1)?;
    executor.reside(residency)?;
    let mut engine = Engine::new(Box::new(executor), 8);
    let tokens = tokens(9, 40);
    let logits = engine.forward(&[all(0, &tokens)])?.remove(0);
    Ok((logits, engine.report().uploaded))
}

#[test]
fn tiles_change_no_bit_wherever_weights_are() {
    for (mix, formats) in [(Mix::Q8_0, [Format::Q8_0]), (Mix::Q4_0, [Format::Q4_0]), (Mix::Q4_K_M, [Format::Q6_K])] {
        let (device, model) = (device(), model(mix));
        let (want, bytes) = run(&device, &model, &[], Residency::Lazy).unwrap();
        let (lazy, repacked_bytes) = run(&device, &model, &formats, Residency::Lazy).unwrap();
        assert!(lazy == want, "{mix:?}");
        // The last tile of a matrix may be filled up.
        assert!(repacked_bytes >= bytes && repacked_bytes < bytes + bytes / 50, "{bytes}, repacked {repacked_bytes}");
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
fn every_window_has_tiles_of_its_own() {
    let restrict = |limits: &mut Limits| limits.storage_binding = 1 << 16;
    let little = Device::open_limited(&DeviceOptions::default(), &restrict).unwrap();
    let model = model(Mix::Q8_0);
    let (want, _) = run(&device(), &model, &[Format::Q8_0], Residency::Lazy).unwrap();
    let (got, _) = run(&little, &model, &[Format::Q8_0], Residency::Lazy).unwrap();
    assert!(got == want);
}
