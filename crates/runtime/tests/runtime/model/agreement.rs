//! Every way to decode computes the same step: on hundreds of random states, whatever a state holds.

use crate::model::numbers::{Tolerance, assert_agree};
use crate::model::world::{bindable, cpu, default_plan, device, model_of};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::sync::Arc;
use wgoose_graph::{Format, Fusion, FusionSet, LayerWeight, LoraRanks, ModelShape, State};
use wgoose_kernels::plan::Fusions;
use wgoose_kernels::{Plan, ops};
use wgoose_loader::Model;
use wgoose_loader::synth::Mix;
use wgoose_plans::catalogue;
use wgoose_runtime::{Device, Engine, Outputs, Sequence, StateData};

/// Small enough for hundreds of steps in many forms on a CPU; K-quants, which need rows of 256, are tested elsewhere.
const SHAPE: ModelShape = ModelShape {
    layers: 3,
    width: 128,
    ffn: 512,
    head_size: 64,
    vocab: 96,
    ranks: LoraRanks { decay: 32, iclr: 24, value: 16, gate: 48 },
    deep_embed: None,
    embedding_norm: true,
    output_head: true,
};

/// Sequences of a pass, and passes: 300 states.
const SEQUENCES: usize = 50;
const PASSES: u64 = 6;

/// One state in so many is read back, others in the next pass: to read them takes longer than to compute them. A second
/// step from every one shows in its logits what became of it.
const STATES: usize = 5;

/// Passes that the reference runs too.
const REFERENCE_PASSES: u64 = 2;

/// A way to decode: its name, and what it changes in the default plan.
struct Form {
    name: String,
    change: Box<dyn Fn(&mut Plan)>,
}

impl Form {
    fn new(name: impl Into<String>, change: impl Fn(&mut Plan) + 'static) -> Self {
        Form { name: name.into(), change: Box::new(change) }
    }

    fn fused(name: impl Into<String>, set: FusionSet) -> Self {
        Form::new(name, move |plan| plan.fusions = Fusions::all(set.clone()))
    }
}

/// Fusions that the device can bind. The first is what all others are compared with.
fn fusions(device: &Device) -> Vec<Form> {
    let all = bindable(device, [Fusion::ALL.into()]).remove(0);
    let fits = all.clone();
    let default = move |plan: &mut Plan| {
        plan.fusions = Plan::default_fusions(false);
        let Fusions { decode, batched, prefill } = &mut plan.fusions;
        [decode, batched, prefill].into_iter().for_each(|set| set.retain(|fusion| fits.contains(fusion)));
    };
    let mut forms = vec![Form::fused("unfused", FusionSet::new()), Form::new("default", default)];
    forms.extend(all.into_iter().map(|fusion| Form::fused(format!("only {fusion}"), FusionSet::from([fusion]))));
    forms
}

/// How matrices lie.
fn layouts(format: Format) -> Vec<Form> {
    let mut forms = vec![Form::fused("unfused", FusionSet::new())];
    if format.interleaved().is_some() {
        forms.push(Form::new("interleaved", move |plan| plan.interleave.extend([format])));
    }
    if format.k_major().is_some() {
        forms.push(Form::new("K-major", |plan| plan.k_major.extend([LayerWeight::FfnValue])));
    }
    forms
}

fn floats(rng: &mut SplitMix64, count: usize, (low, high): (f32, f32)) -> Vec<f32> {
    (0..count).map(|_| low + (high - low) * (rng.next_u64() >> 40) as f32 / (1u64 << 24) as f32).collect()
}

/// A state whose tensors lie where those of a model do: the range that the op which reads it is tested in.
fn random_state(rng: &mut SplitMix64) -> StateData {
    let tensor = |state: State| {
        let op = if matches!(state, State::Wkv(_)) { "wkv" } else { "token_shift" };
        let domain = ops::ALL.iter().find(|o| o.name == op).unwrap().domain;
        (state, floats(rng, state.len(&SHAPE), domain("state").range()))
    };
    StateData(State::all(&SHAPE).map(tensor).collect())
}

/// A pass: for each sequence the state it begins with and its token.
fn pass(seed: u64) -> (Vec<StateData>, Vec<u32>) {
    let mut rng = SplitMix64::seed_from_u64(seed);
    let states = (0..SEQUENCES).map(|_| random_state(&mut rng)).collect();
    (states, (0..SEQUENCES).map(|_| (rng.next_u64() % u64::from(SHAPE.vocab)) as u32).collect())
}

/// The logits of each sequence after its token and after the same token again, and of some the state then.
fn step(engine: &mut Engine, (states, tokens): &(Vec<StateData>, Vec<u32>), seed: u64) -> Vec<(Vec<f32>, StateData)> {
    states.iter().enumerate().for_each(|(slot, state)| engine.set_state(slot, state).unwrap());
    let sequence = |(slot, token)| Sequence { slot, tokens: std::slice::from_ref(token), outputs: Outputs::Last };
    let sequences: Vec<Sequence<'_>> = tokens.iter().enumerate().map(sequence).collect();
    let mut logits = engine.forward(&sequences).unwrap();
    let again = engine.forward(&sequences).unwrap();
    logits.iter_mut().zip(again).for_each(|(logits, again)| logits.extend(again));
    let mut state = |slot: usize| match (slot + seed as usize).is_multiple_of(STATES) {
        true => engine.state(slot).unwrap(),
        false => StateData(Vec::new()),
    };
    logits.into_iter().enumerate().map(|(slot, logits)| (logits, state(slot))).collect()
}

fn assert_forms_agree(device: &Arc<Device>, model: &Arc<Model>, forms: &[Form]) {
    let engine = |form: &Form| {
        let mut plan = default_plan(device, model);
        (form.change)(&mut plan);
        Engine::gpu(Arc::clone(device), Arc::clone(model), plan, catalogue::embedded(), SEQUENCES).unwrap()
    };
    let mut engines: Vec<Engine> = forms.iter().map(engine).collect();
    let mut reference = cpu(model, SEQUENCES);
    for seed in 0..PASSES {
        let pass = pass(seed);
        let mut results = engines.iter_mut().map(|engine| step(engine, &pass, seed));
        let want = results.next().unwrap();
        let agree = |name: &str, got: &[(Vec<f32>, StateData)], tolerance: Tolerance| {
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                assert_agree(&format!("{name}, pass {seed}, sequence {i}"), SHAPE.vocab, got, want, tolerance);
            }
        };
        for (form, got) in forms[1..].iter().zip(results) {
            agree(&form.name, &got, Tolerance::ROUNDING);
        }
        if seed < REFERENCE_PASSES {
            agree("the reference", &step(&mut reference, &pass, seed), Tolerance::REFERENCE);
        }
    }
}

#[test]
fn every_form_agrees_on_hundreds_of_states() {
    let device = device();
    let f16 = fusions(&device).into_iter().chain(layouts(Format::F16).into_iter().skip(1)).collect::<Vec<_>>();
    assert_forms_agree(&device, &model_of(SHAPE, Mix::F16), &f16);
    assert_forms_agree(&device, &model_of(SHAPE, Mix::Q8_0), &layouts(Format::Q8_0));
}
