//! Sequences in one call do not see each other.

use crate::model::numbers::{Result, Tolerance, assert_agree};
use crate::model::world::{SHAPE, all, cpu, device, forget, gpu, model, tokens};
use wgoose_loader::synth::Mix;
use wgoose_runtime::{Engine, Outputs, Sequence, StateData};

/// Lengths of the sequences, 26 tokens together; sequence i lives in slot `SLOTS[i]`.
const LENGTHS: [usize; 4] = [1, 13, 5, 7];
const SLOTS: [usize; 4] = [3, 0, 4, 1];
/// Nobody's.
const IDLE: usize = 2;

fn texts() -> Vec<Vec<u32>> {
    (10..).zip(LENGTHS).map(|(seed, length)| tokens(seed, length)).collect()
}

/// Two rounds of all sequences in one call each, in the given order; the results in the order of [`texts`].
fn packed(engine: &mut Engine, order: [usize; 4]) -> Vec<Result> {
    let texts = texts();
    let mut results = vec![(Vec::new(), StateData(Vec::new())); texts.len()];
    for _round in 0..2 {
        let sequences = order.map(|i| all(SLOTS[i], &texts[i]));
        for (i, logits) in order.into_iter().zip(engine.forward(&sequences).unwrap()) {
            results[i].0.extend(logits);
        }
    }
    for (i, result) in results.iter_mut().enumerate() {
        result.1 = engine.state(SLOTS[i]).unwrap();
    }
    results
}

/// The same in calls of their own.
fn one_by_one(engine: &mut Engine) -> Vec<Result> {
    let single = |(i, text): (usize, &Vec<u32>)| {
        let mut logits = Vec::new();
        for _round in 0..2 {
            logits.extend(engine.forward(&[all(SLOTS[i], text)]).unwrap().remove(0));
        }
        (logits, engine.state(SLOTS[i]).unwrap())
    };
    texts().iter().enumerate().map(single).collect()
}

#[test]
fn packed_sequences_agree_with_single_sequences() {
    let (model, device) = (model(Mix::F16), device());
    let engines = |chunk: usize| {
        let gpu = || gpu(&device, &model, 5).with_chunk(chunk);
        [(gpu(), gpu(), Tolerance::ROUNDING), (cpu(&model, 5), cpu(&model, 5), Tolerance::REFERENCE_SPLIT)]
    };
    // One pass for all, and passes that end within sequences.
    for chunk in [64, 4] {
        for (mut together, mut apart, tolerance) in engines(chunk) {
            let want = one_by_one(&mut apart);
            for (i, got) in packed(&mut together, [0, 1, 2, 3]).iter().enumerate() {
                assert_agree(&format!("sequence {i} in passes of {chunk}"), SHAPE.vocab, got, &want[i], tolerance);
            }
        }
    }
}

#[test]
fn the_order_of_sequences_changes_no_bit() {
    let (model, device) = (model(Mix::Q8_0), device());
    let want = packed(&mut gpu(&device, &model, 5), [0, 1, 2, 3]);
    for order in [[3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
        assert!(packed(&mut gpu(&device, &model, 5), order) == want, "order {order:?}");
    }
}

#[test]
fn slots_that_are_not_named_stay_as_they_are() {
    let model = model(Mix::F16);
    for mut engine in [gpu(&device(), &model, 5), cpu(&model, 5)] {
        packed(&mut engine, [0, 1, 2, 3]);
        assert_eq!(engine.state(IDLE).unwrap(), StateData::zero(&SHAPE));
        let before = SLOTS.map(|slot| engine.state(slot).unwrap());
        engine.forward(&[all(IDLE, &tokens(5, 9))]).unwrap();
        assert!(SLOTS.map(|slot| engine.state(slot).unwrap()) == before);
        assert_ne!(engine.state(IDLE).unwrap(), StateData::zero(&SHAPE));
    }
}

#[test]
fn every_sequence_gets_the_logits_it_asked_for() {
    let model = model(Mix::F16);
    for mut engine in [gpu(&device(), &model, 5), cpu(&model, 5)] {
        let texts = texts();
        let want = one_by_one(&mut engine);
        for slot in SLOTS {
            forget(&mut engine, slot);
        }
        let outputs = [Outputs::Last, Outputs::None, Outputs::All, Outputs::Last];
        let sequences: Vec<_> =
            (0..4).map(|i| Sequence { slot: SLOTS[i], tokens: &texts[i], outputs: outputs[i] }).collect();
        let vocab = SHAPE.vocab as usize;
        for (i, got) in engine.forward(&sequences).unwrap().into_iter().enumerate() {
            let every = &want[i].0[..LENGTHS[i] * vocab];
            let wanted = match outputs[i] {
                Outputs::None => &[],
                Outputs::Last => &every[every.len() - vocab..],
                Outputs::All => every,
            };
            let nothing = || StateData(Vec::new());
            let (got, wanted) = ((got, nothing()), (wanted.to_vec(), nothing()));
            assert_agree(&format!("sequence {i}"), SHAPE.vocab, &got, &wanted, Tolerance::ROUNDING);
        }
    }
}
