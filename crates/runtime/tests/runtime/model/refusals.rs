//! Input that makes no sense: a typed error, nothing run, nothing broken.

use crate::model::world::{SHAPE, all, cpu, device, forget, gpu, model, read, tokens};
use wgoose_loader::synth::Mix;
use wgoose_runtime::{BatchError, Outputs, RuntimeError, Sequence};

#[test]
fn a_refused_batch_changes_no_state_and_the_engine_continues() {
    let model = model(Mix::F16);
    for mut engine in [gpu(&device(), &model, 2), cpu(&model, 2)] {
        let before = read(&mut engine, &tokens(2, 5));
        let states = [0, 1].map(|slot| engine.state(slot).unwrap());
        let good = all(0, &[1, 2, 3]);
        let nothing = Sequence { slot: 1, tokens: &[], outputs: Outputs::None };
        let too_large = [4, SHAPE.vocab];
        let token = BatchError::Token { sequence: 1, position: 1, token: SHAPE.vocab, vocab: SHAPE.vocab };
        let cases = [
            (all(1, &too_large), token),
            (all(2, &[1]), BatchError::Slot { sequence: 1, slot: 2, slots: 2 }),
            (all(0, &[1]), BatchError::SharedSlot(0, 1)),
            (nothing, BatchError::Empty(1)),
        ];
        for (bad, want) in cases {
            match engine.forward(&[good, bad]) {
                Err(RuntimeError::Batch(got)) => assert_eq!(got, want),
                other => panic!("{other:?} instead of {want:?}"),
            }
            assert!([0, 1].map(|slot| engine.state(slot).unwrap()) == states, "{want:?} changed a state");
        }
        assert_eq!(engine.forward(&[]).unwrap(), Vec::<Vec<f32>>::new());
        forget(&mut engine, 0);
        assert!(read(&mut engine, &tokens(2, 5)) == before, "the engine still gives the same logits");
    }
}

#[test]
fn slots_that_do_not_exist_have_no_state() {
    let model = model(Mix::F16);
    for mut engine in [gpu(&device(), &model, 1), cpu(&model, 1)] {
        let good = engine.state(0).unwrap();
        // CPU: slice index panic; GPU: a raw wgpu validation error as RuntimeError::Device.
        assert!(matches!(engine.state(1), Err(RuntimeError::Batch(BatchError::Slot { slot: 1, slots: 1, .. }))));
        assert!(matches!(engine.set_state(1, &good), Err(RuntimeError::Batch(BatchError::Slot { slot: 1, .. }))));
    }
}
