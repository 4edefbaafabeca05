//! Weights reach the device when they are first used, each once.

use crate::world::{SHAPE, device, gpu, model, tokens};
use wgoose_graph::{Weight, WeightClass};
use wgoose_loader::synth::Mix;
use wgoose_runtime::{Outputs, Sequence};

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
    assert_eq!(engine.uploaded(), 0, "opening uploads nothing");
    let tokens = tokens(2, 9);
    let mut run = |outputs| {
        engine.forward(&[Sequence { slot: 0, tokens: &tokens, outputs }]).unwrap();
        engine.uploaded()
    };
    assert_eq!(run(Outputs::None), everything - last.map(bytes).iter().sum::<u64>(), "without logits no head");
    assert_eq!(run(Outputs::Last), everything);
    assert_eq!(run(Outputs::All), everything, "nothing is uploaded twice");
}
