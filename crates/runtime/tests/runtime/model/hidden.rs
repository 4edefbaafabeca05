//! Hidden states: what the head would read, alone and in company, and what is left out on the way to them.

use crate::model::world::{SHAPE, all, cpu, default_plan, device, forget, gpu, model, tokens};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;
use std::sync::Arc;
use wgoose_graph::{BatchShape, Format, Level, State, Weight, WeightClass, rewrite, rwkv7};
use wgoose_kernels::plan::{Choice, TuningKey};
use wgoose_kernels::{Config as Configuration, Instance, Kernel, Plan, Precision, Variant};
use wgoose_loader::Model;
use wgoose_loader::synth::Mix;
use wgoose_plans::catalogue;
use wgoose_runtime::{BatchError, CancelToken, Engine, Outputs, RuntimeError, Sequence, StateData};

const LEVELS: [Level; 3] = [Level::Final, Level::Layer(1), Level::Layer(0)];

fn sequence(slot: usize, tokens: &[u32], outputs: Outputs) -> Sequence<'_> {
    Sequence { slot, tokens, outputs }
}

/// The output head, by definition.
fn head(model: &Model, row: &[f32]) -> Vec<f64> {
    let weights = model.tensor(Weight::Head).to_f32();
    let product = |w: &[f32]| w.iter().zip(row).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
    weights.chunks(SHAPE.width as usize).map(product).collect()
}

fn assert_close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    let difference: f64 = got.iter().zip(want).map(|(g, w)| (f64::from(*g) - w).powi(2)).sum();
    let off = (difference / want.iter().map(|w| w.powi(2)).sum::<f64>()).sqrt();
    assert!(off <= tolerance, "{what} is off by {off:.1e}");
}

#[test]
fn the_head_makes_logits_of_hidden_states() {
    let model = model(Mix::F16);
    let tokens = tokens(1, 21);
    for (mut engine, tolerance) in [(gpu(&device(), &model, 1), 5e-4), (cpu(&model, 1), 1e-6)] {
        let hidden = engine.hidden(&[all(0, &tokens)], Level::Final, &CancelToken::default()).unwrap().remove(0);
        let state = engine.state(0).unwrap();
        forget(&mut engine, 0);
        let logits = engine.forward(&[all(0, &tokens)]).unwrap().remove(0);
        let (rows, logits) = (hidden.chunks(SHAPE.width as usize), logits.chunks(SHAPE.vocab as usize));
        for (t, (row, logits)) in rows.zip(logits).enumerate() {
            assert_close(&format!("token {t}"), logits, &head(&model, row), tolerance);
        }
        for ((_, got), (tensor, want)) in state.0.iter().zip(&engine.state(0).unwrap().0) {
            let want: Vec<f64> = want.iter().map(|x| f64::from(*x)).collect();
            assert_close(&tensor.to_string(), got, &want, 2e-5);
        }
    }
}

#[test]
fn hidden_states_of_the_gpu_agree_with_the_reference() {
    let model = model(Mix::Q8_0);
    let tokens = tokens(2, 30);
    let (mut gpu, mut cpu) = (gpu(&device(), &model, 1), cpu(&model, 1));
    for level in LEVELS {
        let each = |engine: &mut Engine| {
            engine.reset(0..1).unwrap();
            let rows = engine.hidden(&[all(0, &tokens)], level, &CancelToken::default()).unwrap().remove(0);
            engine.reset(0..1).unwrap();
            let mean = engine.hidden_mean(&[all(0, &tokens)], level, &CancelToken::default()).unwrap().remove(0);
            (rows, mean)
        };
        let (got, want) = (each(&mut gpu), each(&mut cpu));
        let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
        assert_close(&format!("{level:?}"), &got.0, &wide(&want.0), 5e-4);
        assert_close(&format!("mean at {level:?}"), &got.1, &wide(&want.1), 1e-4);
        // The mean, by definition.
        let width = SHAPE.width as usize;
        let mean = |c| wide(&want.0).iter().skip(c).step_by(width).sum::<f64>() / tokens.len() as f64;
        assert_close("the reference's mean", &want.1, &(0..width).map(mean).collect::<Vec<_>>(), 1e-6);
    }
}

/// Results of a pass of texts: one row for each text, and the states after it.
type Rows = Vec<Vec<f32>>;

fn read(engine: &mut Engine, texts: &[(usize, Vec<u32>)], level: Level, mean: bool) -> Rows {
    let slots = engine.slots();
    engine.reset(0..slots).unwrap();
    let sequences: Vec<_> = texts.iter().map(|(slot, text)| sequence(*slot, text, Outputs::Last)).collect();
    match mean {
        true => engine.hidden_mean(&sequences, level, &CancelToken::default()).unwrap(),
        false => engine.hidden(&sequences, level, &CancelToken::default()).unwrap(),
    }
}

/// Random texts in random slots, in calls of their own and in one, in passes that may end anywhere.
fn company_changes_no_bit(engine: Engine, cases: u32) {
    let engine = RefCell::new(engine);
    let strategy = (
        prop::collection::vec(1usize..60, 1..6),
        Just((0..6usize).collect::<Vec<_>>()).prop_shuffle(),
        prop::sample::select(LEVELS.to_vec()),
        any::<bool>(),
        any::<u32>(),
    );
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&strategy, |(lengths, slots, level, mean, seed)| {
        let engine = &mut *engine.borrow_mut();
        let texts: Vec<_> = (0..).zip(lengths).map(|(i, n)| (slots[i], tokens(seed % 1000 + i as u32, n))).collect();
        let together = read(engine, &texts, level, mean);
        for (text, row) in texts.iter().zip(&together) {
            let alone = read(engine, std::slice::from_ref(text), level, mean).remove(0);
            prop_assert!(*row == alone, "{} tokens at {:?}, mean: {}", text.1.len(), level, mean);
        }
        Ok(())
    });
    result.unwrap();
}

#[test]
fn company_changes_no_bit_on_the_cpu() {
    company_changes_no_bit(cpu(&model(Mix::F16), 6).with_chunk(32), 8);
}

#[test]
fn company_changes_no_bit_on_the_gpu() {
    let model = model(Mix::Q4_K_M);
    for chunk in [16, 64] {
        let device = device();
        let plan = Plan { prefill_chunk: chunk, ..default_plan(&device, &model) };
        let engine = Engine::gpu(device, Arc::clone(&model), plan, catalogue::embedded(), 6).unwrap();
        company_changes_no_bit(engine, 8);
    }
}

/// A plan that has another kernel for every number of rows: if rows decided, bits would differ.
#[test]
fn company_changes_no_bit_with_a_tuned_plan() {
    let (device, model, catalogue) = (device(), model(Mix::F16), catalogue::embedded());
    let mut plan = Plan { prefill_chunk: 64, ..default_plan(&device, &model) };
    let mut graph = rwkv7::forward(&SHAPE).unwrap();
    rewrite::apply(&mut graph, &plan.fusions.prefill).unwrap();
    for (turn, rows) in [4u32, 16, 64].into_iter().enumerate() {
        let batch = BatchShape { tokens: rows, segments: 1, outputs: rows };
        for id in graph.op_ids() {
            let instance = Instance::of(&graph, id, &batch, &|weight| match weight.class() {
                WeightClass::Vector => Format::F32,
                _ => model.tensor(weight).format(),
            });
            let key = TuningKey::of(&instance);
            if plan.choices.iter().any(|c| c.key == key) {
                continue;
            }
            // By every number of rows of the bucket, so that only bits can go wrong.
            let serves = |(v, c): &(&Variant, Configuration)| {
                (rows / 4 + 1..=rows)
                    .all(|rows| v.admits(&Instance { rows, ..instance.clone() }, c, device.limits()).is_ok())
            };
            let variants = catalogue.variants(instance.op.name());
            let configs = variants.iter().flat_map(|v| v.configs().into_iter().map(move |c| (v, c)));
            let exact = configs.filter(|(v, c)| v.precision(c) == Precision::F32);
            let admitted: Vec<_> = exact.filter(serves).collect();
            let (variant, config) = (0..admitted.len())
                .map(|i| &admitted[(turn * 7 + i) % admitted.len()])
                .find(|(v, c)| Kernel::new(v, &instance, c, device.limits()).is_ok())
                .unwrap();
            plan.choices.push(Choice::new(key, variant, config).unwrap());
        }
    }
    let engine = Engine::gpu(device, Arc::clone(&model), plan, catalogue::embedded(), 6).unwrap();
    company_changes_no_bit(engine, 8);
}

#[test]
fn hidden_states_upload_no_head_and_no_layer_above() {
    let model = model(Mix::Q4_K_M);
    let bytes = |weight: Weight| match weight.class() {
        WeightClass::Vector => model.tensor(weight).to_f32().len() as u64 * 4,
        _ => model.tensor(weight).byte_len() as u64,
    };
    let mut engine = gpu(&device(), &model, 1);
    let tokens = tokens(2, 9);
    let mut uploaded = |level| {
        engine.reset(0..1).unwrap();
        engine.hidden(&[all(0, &tokens)], level, &CancelToken::default()).unwrap();
        engine.report().uploaded
    };
    let below = |layers: u32| -> u64 {
        let used = |w: &Weight| match w {
            Weight::Layer(layer, _) => *layer < layers,
            Weight::Head | Weight::LnOutScale | Weight::LnOutBias => false,
            _ => true,
        };
        Weight::all(&SHAPE).filter(used).map(bytes).sum()
    };
    assert_eq!(uploaded(Level::Layer(0)), below(1));
    assert_eq!(uploaded(Level::Layer(1)), below(2));
    let norm = [Weight::LnOutScale, Weight::LnOutBias].map(bytes).iter().sum::<u64>();
    assert_eq!(uploaded(Level::Final), below(2) + norm);
}

#[test]
fn a_slot_that_left_out_layers_is_not_continued() {
    let model = model(Mix::F16);
    for mut engine in [gpu(&device(), &model, 2), cpu(&model, 2)] {
        let tokens = tokens(3, 5);
        let missing = engine.hidden(&[all(0, &tokens)], Level::Layer(2), &CancelToken::default()).unwrap_err();
        assert!(matches!(missing, RuntimeError::Batch(BatchError::Layer { layer: 2, layers: 2 })), "{missing}");
        assert_eq!(engine.state(0).unwrap(), StateData::zero(&SHAPE), "nothing was run");

        engine.hidden(&[all(0, &tokens)], Level::Layer(0), &CancelToken::default()).unwrap();
        for refused in [engine.forward(&[all(0, &tokens)]).map(drop), engine.state(0).map(drop)] {
            assert!(matches!(refused, Err(RuntimeError::Batch(BatchError::Invalidated { slot: 0, .. }))));
        }
        let (lower, upper) = (State::Wkv(0), State::Wkv(1));
        let read = engine.state_tensor(0, lower).unwrap();
        assert!(engine.state_tensor(0, upper).unwrap().iter().all(|x| *x == 0.0), "that layer was left out");
        engine.reset(0..1).unwrap();
        engine.hidden(&[all(0, &tokens)], Level::Final, &CancelToken::default()).unwrap();
        assert!(engine.state_tensor(0, lower).unwrap() == read, "the layers below do the same");
        engine.forward(&[all(0, &tokens)]).unwrap();
        let none = engine.state_tensor(0, State::Wkv(2)).unwrap_err();
        assert!(matches!(none, RuntimeError::Batch(BatchError::Layer { layer: 2, layers: 2 })), "{none}");
    }
}

#[test]
fn a_cancelled_call_invalidates_its_states() {
    let model = model(Mix::F16);
    for engine in [gpu(&device(), &model, 2), cpu(&model, 2)] {
        let (mut engine, tokens) = (engine.with_chunk(8), tokens(3, 20));
        let cancel = CancelToken::default();
        cancel.cancel();
        let ended = engine.hidden(&[all(0, &tokens)], Level::Final, &cancel).unwrap_err();
        assert!(matches!(ended, RuntimeError::Cancelled), "{ended}");
        let refused = engine.state(0).unwrap_err();
        assert!(matches!(refused, RuntimeError::Batch(BatchError::Invalidated { slot: 0, .. })), "{refused}");
        assert!(engine.state(1).unwrap().is_zero(), "another sequence has its state");
        // A call of one pass has begun when it is looked at.
        engine.hidden_mean(&[all(1, &tokens[..8])], Level::Final, &cancel).unwrap();
    }
}

#[test]
fn growing_and_forking_leave_states_alone() {
    let model = model(Mix::F16);
    for mut engine in [gpu(&device(), &model, 1), cpu(&model, 1)] {
        let text = tokens(4, 17);
        engine.forward(&[all(0, &text)]).unwrap();
        let before = engine.state(0).unwrap();
        let mut fork = engine.fork().unwrap();
        assert_eq!(fork.state(0).unwrap(), StateData::zero(&SHAPE));
        assert_eq!((engine.grow(5).unwrap(), engine.grow(2).unwrap(), engine.slots()), (5, 5, 5));
        assert!(engine.state(0).unwrap() == before);
        for slot in 1..5 {
            assert_eq!(engine.state(slot).unwrap(), StateData::zero(&SHAPE));
        }
        fork.set_state(0, &before).unwrap();
        let want = fork.forward(&[all(0, &text)]).unwrap();
        assert!(engine.forward(&[all(0, &text)]).unwrap() == want);
        engine.set_state(4, &before).unwrap();
        assert!(engine.forward(&[all(4, &text)]).unwrap() == want);
        assert!(fork.state(0).unwrap() == engine.state(4).unwrap());
    }
}
