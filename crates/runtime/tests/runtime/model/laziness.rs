//! Weights reach the device when they are first used, each once.

use crate::model::world::{SHAPE, all, default_plan, device, forget, fused, gpu, model, read, tokens};
use std::sync::Arc;
use wgoose_graph::{Format, FusionSet, Weight, WeightClass};
use wgoose_kernels::Plan;
use wgoose_kernels::plan::Fusions;
use wgoose_loader::Model;
use wgoose_loader::convert::recode;
use wgoose_loader::synth::Mix;
use wgoose_plans::catalogue;
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
    let first = GpuExecutor::new(Arc::clone(&device), Arc::clone(&model), plan, catalogue::embedded(), 1).unwrap();
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

#[test]
fn siblings_of_another_mix_share_their_common_weights() {
    let (source, device) = (model(Mix::F16), device());
    let head = Weight::Head;
    let mut copy = Model::clone(&source);
    recode(&source, &mut copy, head, Format::Q6_K).unwrap();
    let copy = Arc::new(copy);
    let plan = default_plan(&device, &source);
    let first = GpuExecutor::new(Arc::clone(&device), Arc::clone(&source), plan.clone(), catalogue::embedded(), 1);
    let first = first.unwrap();
    let second = first.sharing_with(Arc::clone(&copy), plan.clone(), 1).unwrap();
    let third = first.sharing_with(Arc::clone(&source), plan, 1).unwrap();
    let [mut second, mut third] = [second, third].map(|executor| Engine::new(Box::new(executor), 64));

    let tokens = tokens(6, 9);
    let of_source = read(&mut third, &tokens);
    let uploaded = third.report().uploaded;
    let of_copy = read(&mut second, &tokens);
    assert_eq!(second.report().uploaded, uploaded + copy.tensor(head).byte_len() as u64, "the head alone");
    assert!(of_source == read(&mut gpu(&device, &source, 1), &tokens));
    assert!(of_copy == read(&mut gpu(&device, &copy, 1), &tokens) && of_copy != of_source);

    // Dropped for all of them, and there again on next use.
    first.drop_weights();
    for (engine, wanted) in [(&mut second, of_copy), (&mut third, of_source)] {
        forget(engine, 0);
        assert!(read(engine, &tokens) == wanted);
    }
    assert!(third.report().uploaded > 2 * uploaded);
}
