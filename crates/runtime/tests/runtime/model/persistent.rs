//! The persistent step: what it computes is what the chain of dispatches computes.

use crate::model::folded_norm::plain_and_folded;
use crate::model::world::{SHAPE, default_plan, device, model_of, skips_persistent, tokens};
use std::ops::ControlFlow;
use std::sync::Arc;
use wgoose_graph::{BatchShape, Format, Fusion, FusionSet, ModelShape, Weight, WeightClass};
use wgoose_kernels::persistent::can_be_stage;
use wgoose_kernels::plan::{Choice, Fusions, TuningKey};
use wgoose_kernels::{Config, HandOver, Instance, Kernel, Plan, StateFormat, Variant};
use wgoose_loader::Model;
use wgoose_loader::synth::Mix;
use wgoose_plans::catalogue;
use wgoose_runtime::{
    Continuation, DecodeReport, Device, Engine, Graphs, NotPersistent, Outputs, PersistentStatus, Sampling, Sequence,
    Start,
};

/// Layers enough for a run of them: the first is unlike the others.
const LAYERS: u32 = 5;

/// Bytes of workgroup memory that a stage may have: all of them lie beside each other.
const STAGE_MEMORY: u32 = 2 << 10;

/// Threads of a stage's workgroups.
const THREADS: u32 = 256;

/// A plan with kernels that can be stages.
pub(crate) fn with_stages(device: &Device, model: &Model, mut plan: Plan) -> Plan {
    let batch = BatchShape { tokens: 1, segments: 1, outputs: 1 };
    let graphs = Graphs::new(model.shape(), &plan.fusions, device.timeline()).unwrap();
    let graph = graphs.of(&batch);
    let format = |w: Weight| match w.class() {
        WeightClass::Vector => Format::F32,
        _ => plan.format_on_gpu(w, model.tensor(w).format()),
    };
    let catalogue = catalogue::embedded();
    let mut choices: Vec<Choice> = Vec::new();
    for id in graph.op_ids().filter(|id| graph.op(*id).layer.is_some()) {
        let instance = Instance::of(graph, id, &batch, &format);
        let key = TuningKey::of(&instance);
        if choices.iter().any(|c| c.key == key) {
            continue;
        }
        let variants = catalogue.variants(&key.op).iter();
        let mut configs = variants.flat_map(|v| v.configs().into_iter().map(move |c| (v, c)));
        let fits = |v: &Variant, c: &Config| {
            Kernel::new(v, &instance, c, device.limits())
                .is_ok_and(|k| can_be_stage(&k, THREADS) && k.facts.workgroup_memory <= STAGE_MEMORY)
        };
        if let Some((variant, config)) = configs.find(|(v, c)| fits(v, c)) {
            choices.push(Choice::new(key, variant, &config).unwrap());
        }
    }
    plan.choices = choices;
    plan
}

pub(crate) fn engine(device: &Arc<Device>, model: &Arc<Model>, plan: Plan) -> Engine {
    Engine::gpu(Arc::clone(device), Arc::clone(model), plan, catalogue::embedded(), 2).unwrap()
}

/// Logits of a text read token by token.
pub(crate) fn step_by_step(engine: &mut Engine, text: &[u32]) -> Vec<f32> {
    text.iter()
        .flat_map(|token| {
            let tokens = [*token];
            engine.forward(&[Sequence { slot: 0, tokens: &tokens, outputs: Outputs::Last }]).unwrap().remove(0)
        })
        .collect()
}

#[test]
fn a_megakernel_with_barriers_equals_its_chain_of_phases() {
    is_the_chain_of_its_stages(HandOver::Barrier, &[(Mix::F16, StateFormat::F32), (Mix::Q4_K_M, StateFormat::F32)]);
}

#[test]
fn a_megakernel_with_ready_flags_equals_its_chain_of_phases() {
    is_the_chain_of_its_stages(HandOver::Announced, &[(Mix::F16, StateFormat::F16)]);
}

/// Software adapters compile a megakernel for tens of seconds: formats are shared out among the ways to hand over.
fn is_the_chain_of_its_stages(hand_over: HandOver, formats: &[(Mix, StateFormat)]) {
    let device = device();
    if skips_persistent(&device) {
        return;
    }
    for (mix, state) in formats.iter().copied() {
        let model = model_of(ModelShape { layers: LAYERS, ..SHAPE }, mix);
        // The seven matrices in one op only where they are F16, which software adapters compile in time.
        let fusions = match mix {
            Mix::F16 => Plan::default_fusions(false),
            _ => default_plan(&device, &model).fusions,
        };
        let chain = with_stages(&device, &model, Plan { fusions, state, ..default_plan(&device, &model) });
        let fused = Plan { persistent: Some(1), hand_over, ..chain.clone() };
        let (mut chain, mut fused) = (engine(&device, &model, chain), engine(&device, &model, fused));
        let text = tokens(3, 12);
        let (want, got) = (step_by_step(&mut chain, &text), step_by_step(&mut fused, &text));
        let form = fused.report().persistent;
        assert!(
            matches!(form, Some(PersistentStatus::Used { layers, dispatches }) if layers >= 5 && dispatches < 20),
            "{form:?}"
        );
        assert_eq!(want, got, "{mix:?}, state {state}");
        assert_eq!(chain.state(0).unwrap(), fused.state(0).unwrap());
    }
}

#[test]
fn a_megakernel_without_an_embedding_norm_equals_its_chain_of_phases() {
    let device = device();
    if skips_persistent(&device) {
        return;
    }
    let [_, model] = plain_and_folded(ModelShape { layers: LAYERS, ..SHAPE });
    let chain = with_stages(&device, &model, default_plan(&device, &model));
    let persistent = Plan { persistent: Some(1), ..chain.clone() };
    let (mut chain, mut persistent) = (engine(&device, &model, chain), engine(&device, &model, persistent));
    let text = tokens(3, 12);
    assert_eq!(step_by_step(&mut chain, &text), step_by_step(&mut persistent, &text));
    let form = persistent.report().persistent;
    assert!(matches!(form, Some(PersistentStatus::Used { layers, .. }) if layers >= 5), "{form:?}");
    assert_eq!(chain.state(0).unwrap(), persistent.state(0).unwrap());
}

/// Tokens chosen on the device, and the state after them.
fn decode(engine: &mut Engine, count: u32) -> (Vec<u32>, DecodeReport) {
    let sequence = Continuation::new(0, Sampling::GREEDY, count);
    let mut text = Vec::new();
    let report = engine.decode(Start::Tokens(&[5]), &[sequence], 3, &mut |chosen| {
        text.extend(chosen.iter().flatten().map(|chosen| chosen.token));
        ControlFlow::Continue(())
    });
    (text, report.unwrap())
}

#[test]
fn decode_takes_the_megakernel_or_falls_back_if_workgroups_do_not_fit() {
    let device = device();
    if skips_persistent(&device) {
        return;
    }
    let model = model_of(ModelShape { layers: LAYERS, ..SHAPE }, Mix::F16);
    let chain = with_stages(&device, &model, default_plan(&device, &model));
    let of = |workgroups| Plan { persistent: workgroups, ..chain.clone() };
    let mut by_chain = engine(&device, &model, of(None));
    let want = decode(&mut by_chain, 40);
    let mut fused = engine(&device, &model, of(Some(1)));
    let got = decode(&mut fused, 40);
    assert_eq!(want.0, got.0);
    assert_eq!(by_chain.state(0).unwrap(), fused.state(0).unwrap());
    assert_eq!((want.1.persistent, got.1.persistent > 0, got.1.timed_out), (0, true, false));

    // More than any device keeps at a time.
    let mut crowded = engine(&device, &model, of(Some(2_000)));
    let got = decode(&mut crowded, 40);
    assert!(matches!(crowded.report().persistent, Some(PersistentStatus::Refused(_))));
    assert_eq!((want.0, got.1.persistent), (got.0, 0));
}

/// Without fusions the kernels are small; those for decoding overwrite a state that other workgroups read.
#[test]
fn a_megakernel_of_two_workgroups_equals_its_chain_of_phases() {
    let device = device();
    if skips_persistent(&device) {
        return;
    }
    let model = model_of(ModelShape { layers: 3, ..SHAPE }, Mix::F16);
    let text = tokens(3, 12);
    for decode in [FusionSet::new(), FusionSet::from([Fusion::NormMatmul, Fusion::MatmulResidual])] {
        let fusions = Fusions { decode, ..default_plan(&device, &model).fusions };
        let plan = with_stages(&device, &model, Plan { fusions, ..default_plan(&device, &model) });
        let want = step_by_step(&mut engine(&device, &model, plan.clone()), &text);
        for hand_over in [HandOver::Barrier, HandOver::Announced] {
            let mut fused = engine(&device, &model, Plan { persistent: Some(2), hand_over, ..plan.clone() });
            assert_eq!(want, step_by_step(&mut fused, &text), "{hand_over}");
            match fused.report().persistent {
                Some(PersistentStatus::Used { layers, .. }) => assert!(layers >= 2, "{layers}"),
                // A software device may run one after the other, or end loops that wait.
                Some(PersistentStatus::Refused(why)) if hand_over == HandOver::Barrier => {
                    return eprintln!("skipped: {why}");
                }
                Some(PersistentStatus::Refused(NotPersistent::TimedOut)) => {
                    eprintln!("{hand_over}: they waited too long");
                }
                form => panic!("{hand_over}: {form:?}"),
            }
        }
    }
}

#[test]
fn a_workgroup_that_polls_in_vain_gives_up() {
    let device = device();
    if skips_persistent(&device) {
        return;
    }
    let model = model_of(ModelShape { layers: 3, ..SHAPE }, Mix::F16);
    let fusions = Fusions::all(FusionSet::new());
    let chain = with_stages(&device, &model, Plan { fusions, ..default_plan(&device, &model) });
    // More than any device keeps at a time.
    let crowded = Plan { persistent: Some(2_000), hand_over: HandOver::Announced, ..chain.clone() };
    let want = decode(&mut engine(&device, &model, chain), 10);
    let mut crowded = engine(&device, &model, crowded);
    let got = decode(&mut crowded, 10);
    assert!(matches!(crowded.report().persistent, Some(PersistentStatus::Refused(_))));
    assert_eq!((want.0, got.1.persistent), (got.0, 0));
}
