//! A state is all that is left of a text: saved and restored anywhere, it continues the text unchanged.

use crate::model::numbers::{Tolerance, assert_agree};
use crate::model::world::{SHAPE, all, cpu, device, gpu, model, read, tokens};
use wgoose_graph::State;
use wgoose_loader::synth::Mix;
use wgoose_runtime::{Engine, RuntimeError, StateData};

/// Continues with a prompt and some single tokens.
fn go_on(engine: &mut Engine, slot: usize) -> (Vec<f32>, StateData) {
    let tokens = tokens(3, 14);
    let parts = std::iter::once(&tokens[..11]).chain(tokens[11..].chunks(1));
    let logits = parts.flat_map(|part| engine.forward(&[all(slot, part)]).unwrap().remove(0)).collect();
    (logits, engine.state(slot).unwrap())
}

#[test]
fn states_continue_bit_for_bit_in_another_slot_or_engine() {
    let (model, device) = (model(Mix::Q4_K_M), device());
    let engines: [&dyn Fn() -> Engine; 2] = [&|| gpu(&device, &model, 3), &|| cpu(&model, 3)];
    for engine in engines {
        let (mut first, mut second) = (engine(), engine());
        read(&mut first, &tokens(2, 21));
        let saved = first.state(0).unwrap();
        let want = go_on(&mut first, 0);
        first.set_state(2, &saved).unwrap();
        assert!(go_on(&mut first, 2) == want, "another slot");
        second.set_state(1, &saved).unwrap();
        assert!(second.state(1).unwrap() == saved, "what was written is what is read");
        assert!(go_on(&mut second, 1) == want, "another engine");
        first.set_state(0, &saved).unwrap();
        assert!(go_on(&mut first, 0) == want, "back in time");
    }
}

#[test]
fn the_gpu_continues_a_state_of_the_cpu() {
    let (model, device) = (model(Mix::F16), device());
    let (mut gpu, mut cpu) = (gpu(&device, &model, 1), cpu(&model, 1));
    read(&mut cpu, &tokens(2, 21));
    gpu.set_state(0, &cpu.state(0).unwrap()).unwrap();
    let (got, want) = (go_on(&mut gpu, 0), go_on(&mut cpu, 0));
    assert_agree("handed over", SHAPE.vocab, &got, &want, Tolerance::REFERENCE);
}

#[test]
fn states_of_other_models_are_refused() {
    let model = model(Mix::F16);
    for mut engine in [gpu(&device(), &model, 1), cpu(&model, 1)] {
        read(&mut engine, &tokens(2, 5));
        let good = engine.state(0).unwrap();
        let (mut missing, mut short, mut more) = (good.clone(), good.clone(), good.clone());
        more.0.push((State::Wkv(9), vec![0.0; 3]));
        missing.0.retain(|(tensor, _)| *tensor != State::Wkv(1));
        short.0[0].1.pop();
        for bad in [missing, short, more] {
            let error = engine.set_state(0, &bad).unwrap_err();
            assert!(matches!(error, RuntimeError::StateSize { .. }), "{error}");
        }
        assert!(engine.state(0).unwrap() == good, "a refused state changes nothing");
    }
}
