//! Weights reach the device when they are first used, each once.

use crate::world::{SHAPE, all, default_plan, device, fused, gpu, model, read, tokens};
use std::sync::Arc;
use wgoose_graph::{FusionSet, Weight, WeightClass};
use wgoose_kernels::plan::Fusions;
use wgoose_kernels::{Catalogue, Plan};
use wgoose_loader::synth::Mix;
use wgoose_runtime::{Engine, GpuExecutor, Outputs, Sequence};

#[test]
fn weights_are_uploaded_on_first_use() {
    let model = model(Mix::Q4_K_M);
    let bytes = |weight: Weight| match weight.class() {
        WeightClass::Vector => model.tensor(weight).to_f32().len() as u64 * 4,
        _ => model.tensor(weight).byte_len() as u64,
    };
    let last = [Weight::LnOutScale, Weight::LnOutBias, Weight::Head];
    let everything: u64 = Weight::all(&SHAPE).map(bytes).sum();

    let mut engine = gpu(&device(), &model, 1);
    assert_eq!(engine.report().uploaded, 0, "opening uploads nothing");
    let tokens = tokens(2, 9);
    let mut run = |outputs| {
        engine.forward(&[Sequence { slot: 0, tokens: &tokens, outputs }]).unwrap();
        engine.report().uploaded
    };
    assert_eq!(run(Outputs::None), everything - last.map(bytes).iter().sum::<u64>(), "without logits no head");
    assert_eq!(run(Outputs::Last), everything);
    assert_eq!(run(Outputs::All), everything, "nothing is uploaded twice");
}

#[test]
fn siblings_share_weights_and_nothing_else() {
    let (model, device) = (model(Mix::F16), device());
    let plan = default_plan(&device, &model);
    let unfused = Plan { fusions: Fusions::all(FusionSet::new()), ..plan.clone() };
    let first = GpuExecutor::new(Arc::clone(&device), Arc::clone(&model), plan, Catalogue::embedded(), 1).unwrap();
    let second = first.sharing_weights(unfused, 2).unwrap();
    let [mut first, mut second] = [first, second].map(|executor| Engine::new(Box::new(executor), 64));

    let tokens = tokens(6, 9);
    read(&mut first, &tokens);
    let uploaded = first.report().uploaded;
    let got = second.forward(&[all(1, &tokens)]).unwrap().remove(0);
    assert_eq!([first.report().uploaded, second.report().uploaded], [uploaded; 2], "nothing is uploaded again");
    let mut alone = fused(&device, &model, FusionSet::new(), 1).unwrap();
    assert!(got == read(&mut alone, &tokens), "a plan of its own, from a state of its own");
}
