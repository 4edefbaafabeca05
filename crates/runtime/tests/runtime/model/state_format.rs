//! A state in f16: half the bytes, and numbers of the f16 class; wherever it goes, no further bit is lost.

use crate::model::numbers::{Result, Tolerance, assert_agree, disagreement};
use crate::model::world::{SHAPE, all, bindable, cpu, default_plan, device, forget, gpu, model, planned, read, tokens};
use std::ops::ControlFlow;
use std::sync::Arc;
use wgoose_graph::{Fusion, FusionSet, State};
use wgoose_kernels::plan::Fusions;
use wgoose_kernels::{Plan, Precision, StateFormat};
use wgoose_loader::Model;
use wgoose_loader::synth::Mix;
use wgoose_plans::catalogue;
use wgoose_runtime::{
    Continuation, Device, Engine, Executor, GpuExecutor, Outputs, Sampling, Sequence, Start, StateData,
};

/// A pass rounds the state once, by 2^-12.3 of it as a root mean square; after 40 passes that are independent errors,
/// that is 40^(1/2) 2e-4 = 1.3e-3. Logits are as far off as the state, and twice that for the norms. A fresh state is
/// exact.
const F16_STATE: Tolerance = Tolerance { first: 5e-4, later: 2.6e-3 };

fn plan_with(device: &Device, model: &Model, state: StateFormat) -> Plan {
    Plan { state, ..default_plan(device, model) }
}

/// The default plan but for its state.
fn halved(device: &Arc<Device>, model: &Arc<Model>, slots: usize) -> Engine {
    planned(device, model, plan_with(device, model, StateFormat::F16), slots).unwrap()
}

/// Goes on with a prompt and some single tokens.
fn go_on(engine: &mut Engine, slot: usize) -> Result {
    let tokens = tokens(3, 14);
    let parts = std::iter::once(&tokens[..11]).chain(tokens[11..].chunks(1));
    let logits = parts.flat_map(|part| engine.forward(&[all(slot, part)]).unwrap().remove(0)).collect();
    (logits, engine.state(slot).unwrap())
}

fn one_by_one(engine: &mut Engine, text: &[u32]) -> Result {
    let logits = text.iter().flat_map(|token| read(engine, &[*token])).collect();
    (logits, engine.state(0).unwrap())
}

/// Whether every value of the WKV matrices is an f16.
fn is_f16(state: &StateData) -> bool {
    let wkv = state.0.iter().filter(|(tensor, _)| matches!(tensor, State::Wkv(_)));
    // The lower bits of a normal f16 are zeros in f32.
    wkv.flat_map(|(_, values)| values).all(|x| x.to_bits() & 0x1fff == 0 || x.abs() < 6.2e-5)
}

#[test]
fn a_state_in_f16_agrees_with_the_reference_to_f16() {
    let device = device();
    let text = tokens(1, 40);
    for mix in [Mix::F16, Mix::Q4_K_M] {
        let model = model(mix);
        let want = one_by_one(&mut cpu(&model, 1), &text);
        let mut engine = halved(&device, &model, 1).with_chunk(16);
        let got = one_by_one(&mut engine, &text);
        assert!(is_f16(&got.1));
        assert_agree("token by token", SHAPE.vocab, &got, &want, F16_STATE);
        assert!(disagreement(SHAPE.vocab, &got, &want, Tolerance::REFERENCE).is_some(), "nothing was rounded");
        forget(&mut engine, 0);
        let in_passes = (read(&mut engine, &text), engine.state(0).unwrap());
        assert!(is_f16(&in_passes.1));
        assert_agree("in passes of 16", SHAPE.vocab, &in_passes, &want, F16_STATE);
        assert_agree("passes and tokens", SHAPE.vocab, &in_passes, &got, F16_STATE);
    }
}

/// Every op that has the WKV state, as fusions that the device can bind make them.
#[test]
fn every_op_rounds_the_state_alike() {
    let (device, model) = (device(), model(Mix::F16));
    let text = tokens(1, 20);
    let want = one_by_one(&mut cpu(&model, 1), &text);
    let sets: [FusionSet; 4] = [
        FusionSet::new(),
        [Fusion::LoraGroup, Fusion::TimeMixCore].into(),
        [Fusion::LoraGroup, Fusion::TimeMixCore, Fusion::TimeMixHeads].into(),
        [Fusion::LoraGroup, Fusion::TimeMixSplit].into(),
    ];
    for fusions in bindable(&device, sets) {
        let plan = Plan { fusions: Fusions::all(fusions.clone()), ..plan_with(&device, &model, StateFormat::F16) };
        let got = one_by_one(&mut planned(&device, &model, plan, 1).unwrap(), &text);
        assert!(is_f16(&got.1), "{fusions:?}");
        assert_agree(&format!("{fusions:?}"), SHAPE.vocab, &got, &want, F16_STATE);
    }
}

#[test]
fn states_continue_bit_for_bit_in_another_slot_or_engine() {
    let (model, device) = (model(Mix::Q4_K_M), device());
    let (mut first, mut second) = (halved(&device, &model, 3), halved(&device, &model, 3));
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
    let mut forked = first.fork().unwrap();
    forked.set_state(0, &saved).unwrap();
    assert!(go_on(&mut forked, 0) == want, "a fork");
    assert!(first.grow(7).unwrap() >= 7);
    assert!(first.state(2).unwrap() == want.1, "more room");
    first.set_state(6, &saved).unwrap();
    assert!(go_on(&mut first, 6) == want, "a new slot");
    first.reset(1..3).unwrap();
    assert!(first.state(2).unwrap().is_zero() && first.state(0).unwrap() == want.1, "two slots are reset");
}

#[test]
fn states_move_between_formats() {
    let (model, device) = (model(Mix::F16), device());
    let (mut half, mut whole) = (halved(&device, &model, 1), gpu(&device, &model, 1));
    read(&mut whole, &tokens(2, 21));
    let exact = whole.state(0).unwrap();
    half.set_state(0, &exact).unwrap();
    let rounded = half.state(0).unwrap();
    for ((tensor, exact), (_, rounded)) in exact.0.iter().zip(&rounded.0) {
        let is_wkv = matches!(tensor, State::Wkv(_));
        assert_eq!(exact != rounded, is_wkv, "{tensor}");
        let close = |(a, b): (&f32, &f32)| (a - b).abs() <= a.abs() / 2048.0 + 2f32.powi(-25);
        assert!(exact.iter().zip(rounded).all(close), "{tensor}");
    }
    assert_agree("into f16", SHAPE.vocab, &go_on(&mut half, 0), &go_on(&mut whole, 0), F16_STATE);
    whole.set_state(0, &rounded).unwrap();
    assert!(whole.state(0).unwrap() == rounded, "f32 holds every f16");
}

#[test]
fn values_beyond_f16_stay_finite() {
    let (model, device) = (model(Mix::F16), device());
    let mut engine = halved(&device, &model, 1);
    read(&mut engine, &tokens(2, 5));
    let mut state = engine.state(0).unwrap();
    for (_, values) in state.0.iter_mut().filter(|(tensor, _)| matches!(tensor, State::Wkv(_))) {
        values[0] = 1e6;
        values[1] = -1e6;
    }
    engine.set_state(0, &state).unwrap();
    assert_eq!(engine.state_tensor(0, State::Wkv(1)).unwrap()[..2], [65504.0, -65504.0]);
    let (logits, after) = go_on(&mut engine, 0);
    assert!(logits.iter().chain(after.0.iter().flat_map(|(_, values)| values)).all(|x| x.is_finite()));
}

#[test]
fn order_and_company_change_no_bit() {
    let (model, device) = (model(Mix::Q8_0), device());
    let texts: Vec<Vec<u32>> = [1usize, 13, 5, 7].iter().zip(10..).map(|(n, seed)| tokens(seed, *n)).collect();
    let run = |order: &[usize]| {
        let mut engine = halved(&device, &model, 5);
        let mut results = vec![(Vec::new(), StateData(Vec::new())); texts.len()];
        for _round in 0..2 {
            let sequences: Vec<_> = order.iter().map(|i| all(*i, &texts[*i])).collect();
            for (i, logits) in order.iter().zip(engine.forward(&sequences).unwrap()) {
                results[*i].0.extend(logits);
            }
        }
        for i in order {
            results[*i].1 = engine.state(*i).unwrap();
        }
        assert!(engine.state(4).unwrap().is_zero());
        results
    };
    let want = run(&[0, 1, 2, 3]);
    for order in [[3, 2, 1, 0], [1, 3, 0, 2]] {
        assert!(run(&order) == want, "order {order:?}");
    }
    for i in 0..texts.len() {
        assert_agree(&format!("sequence {i} alone"), SHAPE.vocab, &run(&[i])[i], &want[i], F16_STATE);
    }
}

#[test]
fn a_state_in_f16_takes_half_the_bytes_as_predicted() {
    let (model, device) = (model(Mix::F16), device());
    let bytes = |state| {
        let plan = plan_with(&device, &model, state);
        let executor = GpuExecutor::new(Arc::clone(&device), Arc::clone(&model), plan, catalogue::embedded(), 8);
        let executor = executor.unwrap();
        let (predicted, measured) = (executor.predict().unwrap().state, executor.footprint().state);
        assert_eq!(predicted, measured);
        (executor.state_bytes(), measured)
    };
    let (whole, half) = (bytes(StateFormat::F32), bytes(StateFormat::F16));
    let (shifts, wkv) = (2 * 2 * 256 * 4, 2 * 4 * 64 * 64 * 4);
    assert_eq!((whole.0, half.0), (shifts + wkv, shifts + wkv / 2));
    // Nine slots with the spare one; tensors begin at multiples of the alignment.
    assert_eq!(whole.1 - half.1, 9 * wkv / 2);
}

/// Tokens chosen on the device, with steps that are taken back where the text ends, are those of single passes, and so
/// are the states.
#[test]
fn decoding_leaves_the_state_of_single_passes() {
    let (model, device) = (model(Mix::F16), device());
    let mut ahead = halved(&device, &model, 2);
    let mut texts = vec![Vec::new(); 2];
    let of = |slot, max_tokens| Continuation::new(slot, Sampling::GREEDY, max_tokens);
    let mut rounds = 0;
    ahead
        .decode(Start::Tokens(&[5, 9]), &[of(0, 12), of(1, 30)], 3, &mut |chosen| {
            texts.iter_mut().zip(chosen).for_each(|(text, chosen)| text.extend(chosen.map(|chosen| chosen.token)));
            rounds += 1;
            if rounds == 20 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(texts.iter().map(Vec::len).collect::<Vec<_>>(), [12, 20]);
    let mut behind = halved(&device, &model, 2);
    for i in 0..20 {
        let read = |slot: usize| (slot, [if i == 0 { [5, 9][slot] } else { texts[slot][i - 1] }]);
        let reads: Vec<(usize, [u32; 1])> = (0..2).filter(|slot| i < texts[*slot].len()).map(read).collect();
        let sequences: Vec<Sequence<'_>> =
            reads.iter().map(|(slot, tokens)| Sequence { slot: *slot, tokens, outputs: Outputs::Last }).collect();
        let logits = behind.forward(&sequences).unwrap();
        for ((slot, _), logits) in reads.iter().zip(logits) {
            let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(logits[texts[*slot][i] as usize], best, "token {i} of sequence {slot}");
        }
    }
    for slot in 0..2 {
        let pair = [&mut ahead, &mut behind].map(|engine| (Vec::new(), engine.state(slot).unwrap()));
        assert!(is_f16(&pair[0].1));
        assert_agree(&format!("slot {slot}"), SHAPE.vocab, &pair[0], &pair[1], F16_STATE);
    }
}

#[test]
fn f32_precision_undoes_a_state_in_f16() {
    let (model, device, catalogue) = (model(Mix::F16), device(), catalogue::embedded());
    let plan = plan_with(&device, &model, StateFormat::F16);
    assert_eq!(plan.least_precise(&catalogue), Precision::F16);
    let text = tokens(4, 30);
    let run = |plan: Plan| one_by_one(&mut planned(&device, &model, plan, 1).unwrap(), &text);
    let exact = run(default_plan(&device, &model).at_most(Precision::F32, &catalogue));
    assert!(run(plan.clone().at_most(Precision::F32, &catalogue)) == exact);
    assert!(run(plan) != exact);
}
