//! Devices that bind less, know less or dispatch less run the same model, or say why they cannot.

use crate::model::numbers::{Result, Tolerance, assert_agree};
use crate::model::world::{SHAPE, all, bindable, default_plan, device, fused, gpu, model, model_of, read, tokens};
use std::sync::Arc;
use wgoose_graph::{BatchShape, Fusion, FusionSet, LoraRanks, ModelShape};
use wgoose_kernels::plan::{Choice, TuningKey};
use wgoose_kernels::{Feature, Instance, Limits, PlanError, Refusal};
use wgoose_loader::Model;
use wgoose_loader::synth::Mix;
use wgoose_plans::catalogue;
use wgoose_runtime::{Device, DeviceLimits, DeviceOptions, Engine, Graphs, RuntimeError};

/// Passes so short that their values fit into small bindings.
const CHUNK: usize = 8;

fn lesser(restrict: impl Fn(&mut Limits)) -> Arc<Device> {
    Device::open_limited(&DeviceOptions::default(), &restrict).unwrap()
}

fn run(engine: Engine) -> Result {
    let mut engine = engine.with_chunk(CHUNK);
    let tokens = tokens(4, 21);
    let mut logits = read(&mut engine, &tokens[..20]);
    logits.extend(read(&mut engine, &tokens[20..]));
    (logits, engine.state(0).unwrap())
}

fn run_on(device: &Arc<Device>, model: &Arc<Model>) -> Result {
    run(gpu(device, model, 1))
}

#[test]
fn large_matrices_are_bound_in_row_shards() {
    // 64 KiB just hold the state of a layer. Embedding, head and the matrices of the channel mix need many shards,
    // the last one shorter, and in Q6_K of a length that is no multiple of 4 bytes.
    let device_in_row_shards = lesser(|l| l.storage_binding = 1 << 16);
    let shape = ModelShape { vocab: 1999, ..SHAPE };
    for mix in [Mix::F16, Mix::Q8_0, Mix::Q4_K_M] {
        let model = model_of(shape, mix);
        let fused_there = default_plan(&device_in_row_shards, &model).fusions.decode;
        // The core binds no matrix, and 16 buffers.
        assert_eq!(fused_there.contains(&Fusion::TimeMixCore), device().limits().storage_buffers >= 16);
        assert!(!fused_there.is_empty() && !fused_there.contains(&Fusion::Project));
        for fusions in [FusionSet::new(), fused_there] {
            let whole = run(fused(&device(), &model, fusions.clone(), 1).unwrap());
            let shards = run(fused(&device_in_row_shards, &model, fusions, 1).unwrap());
            assert!(shards == whole, "{mix}");
        }
    }
}

#[test]
fn values_that_cannot_be_split_are_refused() {
    let model = model(Mix::F16);
    let small = lesser(|l| l.storage_binding = 1 << 15);
    let error = fused(&small, &model, FusionSet::new(), 1).err().unwrap();
    assert!(matches!(error, RuntimeError::ValueTooLarge { what: "the state of all sequences", .. }), "{error}");
    let small = lesser(|l| l.storage_binding = 1 << 16);
    let projected = FusionSet::from([Fusion::LoraGroup, Fusion::Project]);
    let error = fused(&small, &model, projected, 1).unwrap().forward(&[all(0, &[1])]).unwrap_err();
    assert!(matches!(error, RuntimeError::Unsplit { op: "project", .. }), "{error}");
    let mut engine = gpu(&small, &model, 1).with_chunk(64);
    let error = engine.forward(&[all(0, &tokens(0, 64))]).unwrap_err();
    assert!(matches!(error, RuntimeError::ValueTooLarge { what: "an activation", .. }), "{error}");
    let error = format!("{error}");
    assert!(error.contains("smaller prefill chunk"), "{error}");
}

#[test]
fn planes_that_cannot_be_bound_are_refused() {
    let ranks = LoraRanks { decay: 8, iclr: 8, value: 8, gate: 8 };
    let model = model_of(ModelShape { width: 32, ffn: 64, head_size: 32, ranks, ..SHAPE }, Mix::F16);
    let mut engine = gpu(&lesser(|l| l.storage_alignment = 256), &model, 1);
    let error = engine.forward(&[all(0, &[1])]).unwrap_err();
    assert!(matches!(error, RuntimeError::Alignment { width: 32, alignment: 256 }), "{error}");
}

#[test]
fn optional_features_change_the_speed_only() {
    for mix in [Mix::F16, Mix::Q4_K_M] {
        let model = model(mix);
        let want = run_on(&device(), &model);
        let got = run_on(&lesser(|l| l.features.clear()), &model);
        assert_agree(&format!("{mix} without features"), SHAPE.vocab, &got, &want, Tolerance::ROUNDING);
    }
}

#[test]
fn falsely_listed_matrix_units_are_found_out() {
    const UNITS: [Feature; 2] = [Feature::CooperativeMatrix, Feature::CooperativeMatrix8];
    let honest = device();
    if UNITS.iter().any(|units| honest.limits().features.contains(units)) {
        println!("skipped: {} has matrix units", honest.fingerprint().adapter);
        return;
    }
    let boasting = lesser(|l| l.features.extend(UNITS));
    assert_eq!(boasting.limits(), honest.limits());
    for mix in [Mix::F16, Mix::Q4_K_M] {
        let model = model(mix);
        assert!(default_plan(&boasting, &model) == default_plan(&honest, &model));
        assert!(run_on(&boasting, &model) == run_on(&honest, &model), "{mix}");
    }
    // Asked for by name, a kernel that needs them is not replaced in silence.
    let model = model(Mix::F16);
    let mut plan = default_plan(&boasting, &model);
    let batch = BatchShape { tokens: 16, segments: 1, outputs: 16 };
    let graphs = Graphs::new(model.shape(), &plan.fusions, boasting.timeline()).unwrap();
    let graph = graphs.of(&batch);
    let instances = graph.op_ids().map(|id| Instance::of(graph, id, &batch, &|w| model.tensor(w).format()));
    let product = instances.into_iter().find(|instance| instance.op.name() == "matmul").unwrap();
    let catalogue = catalogue::embedded();
    let variant = catalogue.variant("matmul", "gemm_coop_128x128").unwrap();
    plan.choices = vec![Choice::new(TuningKey::of(&product), variant, &variant.default_config()).unwrap()];
    let mut engine = Engine::gpu(boasting, Arc::clone(&model), plan, catalogue, 1).unwrap();
    let error = engine.forward(&[all(0, &tokens(4, 16))]).unwrap_err();
    // What such a kernel needs is asked for in turn.
    let needs = [Feature::Subgroups, Feature::F16, Feature::CooperativeMatrix];
    let lacking = needs.into_iter().find(|feature| !honest.limits().features.contains(feature)).unwrap();
    let refused = Refusal::Feature(lacking);
    assert!(matches!(&error, RuntimeError::Plan(PlanError::Refused { refusal, .. }) if *refusal == refused), "{error}");
}

#[test]
fn the_least_of_webgpu_is_enough() {
    let model = model(Mix::F16);
    let want = run_on(&device(), &model);
    for limits in [DeviceLimits::WebGpu, DeviceLimits::Low] {
        // wgpu itself refuses what goes beyond.
        let least = Device::open_with(&DeviceOptions { limits, ..DeviceOptions::default() }).unwrap();
        assert_eq!(least.limits().storage_buffers, 8);
        let got = run_on(&least, &model);
        assert_agree(&format!("{limits:?}"), SHAPE.vocab, &got, &want, Tolerance::ROUNDING);
        // Asked for by name, a fusion is not left out in silence.
        let core = FusionSet::from([Fusion::TimeMixCore]);
        let error = fused(&least, &model, core, 1).unwrap().forward(&[all(0, &[1])]).unwrap_err();
        assert!(matches!(error, RuntimeError::Plan(PlanError::NoKernel { op: "time_mix_core", .. })), "{error}");
    }
}

#[test]
fn dispatches_are_folded() {
    let model = model(Mix::Q8_0);
    let want = run_on(&device(), &model);
    assert!(run_on(&lesser(|l| l.workgroups_per_dimension = 48), &model) == want);
    let error = gpu(&lesser(|l| l.workgroups_per_dimension = 3), &model, 1).forward(&[all(0, &[1])]);
    assert!(matches!(error, Err(RuntimeError::DispatchTooLarge { .. })), "{error:?}");
}

#[test]
fn adapters_in_row_shards_are_right_or_refused() {
    // The decay adapter, 96 rows of 1 KiB in F32, is larger than a binding.
    let ranks = LoraRanks { decay: 96, ..SHAPE.ranks };
    let model = model_of(ModelShape { ranks, ..SHAPE }, Mix::F16);
    let small = lesser(|l| l.storage_binding = 1 << 16);
    let tokens = tokens(4, 8);
    let fusions = bindable(&device(), [Fusion::ALL.into()]).remove(0);
    let want = fused(&device(), &model, fusions.clone(), 1).unwrap().forward(&[all(0, &tokens)]).unwrap();
    match fused(&small, &model, fusions, 1).unwrap().forward(&[all(0, &tokens)]) {
        Ok(got) => assert!(got == want),
        Err(error) => assert!(!matches!(error, RuntimeError::Device { .. }), "{error}"),
    }
}
