//! The quality hash: shared by correct plans, changed by each mistake that an implementation of RWKV-7 can make.

#![allow(clippy::unwrap_used)] // a failed helper is a failed test

use std::sync::Arc;
use wgoose_graph::{Activation, Format, FusionSet, Graph, Input, LoraRanks, ModelShape, NodeId, Op, rwkv7};
use wgoose_kernels::plan::{Choice, Fusions, SiteClass};
use wgoose_kernels::{Kernel, Numerics, Plan, Sources, Tunables, ops};
use wgoose_loader::synth::{Mix, SynthOptions, write};
use wgoose_loader::{Container, Model};
use wgoose_runtime::{CpuExecutor, Device, Engine, GpuExecutor};
use wgoose_tuner::quality::{Quality, Reference};
use wgoose_tuner::race::Step;
use wgoose_tuner::space::{SiteGroup, groups};

fn model(folder: &tempfile::TempDir) -> Arc<Model> {
    let ranks = LoraRanks { decay: 32, iclr: 32, value: 16, gate: 32 };
    let shape = ModelShape { layers: 3, width: 128, ffn: 384, head_size: 64, vocab: 512, ranks };
    model_of(folder, shape, Mix::F16)
}

fn model_of(folder: &tempfile::TempDir, shape: ModelShape, mix: Mix) -> Arc<Model> {
    let options = SynthOptions {
        shape,
        seed: 11,
        container: Container::Gguf,
        mix,
        hot: false,
        ffn_zeros: None,
        vocabulary: None,
    };
    let path = folder.path().join("model.gguf");
    write(&options, &path, &|_, _| {}).unwrap();
    Arc::new(Model::open(path).unwrap())
}

/// The ops of a role and name, layer by layer.
fn find(graph: &Graph, role: &str, op: &str) -> Vec<NodeId> {
    let matches = |id: &NodeId| graph.op(*id).role == role && graph.op(*id).op.name() == op;
    let mut found: Vec<NodeId> = graph.op_ids().filter(matches).collect();
    found.sort_by_key(|id| graph.op(*id).layer);
    found
}

/// Leaves an op out: its readers read what stands at `operand` instead.
fn skip(graph: &mut Graph, role: &str, op: &str, operand: &str, layer: usize) {
    let id = find(graph, role, op)[layer];
    let input = graph.input(id, operand).unwrap();
    graph.take_over(input.node, &[(id, input.plane)]);
}

fn change(graph: &mut Graph, role: &str, op: &str, layer: usize, to: Op) {
    let id = find(graph, role, op)[layer];
    graph.replace_op(id, to);
}

type Mutation = (&'static str, fn(&mut Graph, usize));

/// Mistakes seen in real implementations, each in one layer.
const MUTATIONS: [Mutation; 12] = [
    ("lerp rows of r and k swapped", |g, l| {
        let (r, k) = (find(g, "att.receptance", "matmul")[l], find(g, "att.key", "matmul")[l]);
        let (of_r, of_k) = (g.input(r, "x").unwrap(), g.input(k, "x").unwrap());
        g.rewire(r, "x", of_k);
        g.rewire(k, "x", of_r);
    }),
    ("bonus missing", |g, l| skip(g, "att.bonus", "bonus", "x", l)),
    ("group norm's eps multiplied by more than the head size", |g, l| {
        change(g, "att.ln_x", "group_norm", l, Op::GroupNorm { eps: 64e-5 * 64.0 });
    }),
    ("v_first ignored", |g, l| skip(g, "att.value_residual", "value_residual", "v", l.saturating_sub(1))),
    ("key not scaled by the learning rate", |g, l| skip(g, "att.key_update", "key_update", "k", l)),
    ("removal key taken after the key's update", |g, l| {
        // The update needs no removal key, so there is no cycle.
        let (kk, k) = (find(g, "att.removal_key", "removal_key")[l], find(g, "att.key_update", "key_update")[l]);
        g.rewire(kk, "k", Input::from(k));
    }),
    ("decay without its exponential", |g, l| {
        change(g, "att.decay", "bias_activate", l, Op::BiasActivate { activation: Activation::Sigmoid });
    }),
    ("tanh missing in the decay's adapter", |g, l| skip(g, "att.decay", "activate", "x", l)),
    ("gate missing", |g, l| skip(g, "att.gated", "mul", "a", l)),
    ("relu not squared, but a sigmoid", |g, l| {
        change(g, "ffn.relu2", "activate", l, Op::Activate { activation: Activation::Sigmoid });
    }),
    ("channel mix without its residual", |g, l| skip(g, "ffn.residual", "add", "b", l)),
    ("time mix reads the norm of the channel mix", |g, l| {
        let (ln1, ln2) = (find(g, "att.shift", "layer_norm")[l], find(g, "ffn.shift", "layer_norm")[l]);
        let scale = g.input(ln2, "scale").unwrap();
        g.rewire(ln1, "scale", scale);
    }),
];

#[test]
fn every_mutation_changes_the_hash() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(&folder);
    let reference = Reference::compute(&model).unwrap();
    let mut survivors = Vec::new();
    for (seed, (name, mutate)) in MUTATIONS.into_iter().enumerate() {
        let layer = seed % model.shape().layers as usize;
        let mut graph = rwkv7::forward(model.shape()).unwrap();
        mutate(&mut graph, layer);
        let executor = CpuExecutor::with_graph(Arc::clone(&model), graph, Reference::SLOTS).unwrap();
        let quality = reference.evaluate(&mut Engine::new(Box::new(executor), 64)).unwrap();
        println!(
            "{name}, layer {layer}: {} of {:?} disagree, rms {:.1e}",
            quality.disagreements, quality.certified, quality.rms
        );
        if quality.hash == reference.hash() || quality.passed(Numerics::F32) {
            survivors.push(name);
        }
    }
    assert!(survivors.is_empty(), "not noticed: {survivors:?}");
}

#[test]
fn correct_plans_share_the_hash() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(&folder);
    let reference = Reference::compute(&model).unwrap();
    let (certified, positions) = reference.certified();
    assert!(certified * 2 > positions, "{certified} of {positions} certified");

    let mut cpu = Engine::cpu(Arc::clone(&model), Reference::SLOTS).unwrap();
    assert_eq!(reference.evaluate(&mut cpu).unwrap().hash, reference.hash());

    let device = Device::open(None).unwrap();
    let default = Plan::default_for(device.fingerprint().clone(), *model.shape(), device.limits());
    let mut naive = Plan { fusions: Fusions::all(FusionSet::new()), prefill_chunk: 7, ..default.clone() };
    for (k, m) in [(128, 128), (128, 384), (384, 128), (128, 512)] {
        for up_to_rows in [1, 4, 16] {
            let variant = ops::variants("matmul").iter().find(|v| v.name == "naive").unwrap();
            let formats = vec![wgoose_graph::Format::F16];
            let source = variant.source_hash(&formats, &Sources::Embedded).unwrap();
            naive.choices.push(Choice {
                site: SiteClass { op: "matmul".into(), k, m, formats, up_to_rows },
                variant: "naive".into(),
                tunables: variant.defaults(&Sources::Embedded).unwrap(),
                source,
            });
        }
    }
    for plan in [default, naive] {
        let chunk = plan.prefill_chunk as usize;
        let (device, model) = (Arc::clone(&device), Arc::clone(&model));
        let gpu = GpuExecutor::new(device, model, plan, Sources::Embedded, Reference::SLOTS).unwrap();
        let quality = reference.evaluate(&mut Engine::new(Box::new(gpu), chunk)).unwrap();
        assert!(quality.passed(Numerics::F32), "{quality:?}");
        assert_eq!(quality.hash, reference.hash());
    }
}

/// The plan that takes a variant for every product that admits it.
fn plan_of(device: &Device, model: &Model, variant: &str) -> Plan {
    let mut plan = Plan::default_for(device.fingerprint().clone(), *model.shape(), device.limits());
    plan.repack.extend([Format::Q8_0, Format::Q4_0, Format::Q6_K]);
    let format = |w| plan.format_on_gpu(w, model.tensor(w).format());
    let of_step = |rows, fusions| groups(model.shape(), Step::prefill(rows), fusions, &format);
    let mut all: Vec<SiteGroup> = of_step(1, &plan.fusions.decode);
    all.extend([4, 16, 64].into_iter().flat_map(|rows| of_step(rows, &plan.fusions.prefill)));
    for SiteGroup { class, site, .. } in all {
        let Some(variant) = ops::variants(&class.op).iter().find(|v| v.name == variant) else { continue };
        let points = variant.points(&Sources::Embedded).unwrap();
        let admitted = |t: &Tunables| Kernel::new(variant, &site, t, device.limits(), &Sources::Embedded).is_ok();
        if let Some(tunables) = points.into_iter().find(admitted) {
            let source = variant.source_hash(&class.formats, &Sources::Embedded).unwrap();
            if !plan.choices.iter().any(|c| c.site == class) {
                plan.choices.push(Choice { site: class, variant: variant.name.to_owned(), tunables, source });
            }
        }
    }
    plan
}

#[test]
fn plans_pass_the_gate_of_their_numerics() {
    let device = Device::open(None).unwrap();
    let ranks = LoraRanks { decay: 32, iclr: 32, value: 16, gate: 32 };
    let shape = ModelShape { layers: 3, width: 256, ffn: 768, head_size: 64, vocab: 512, ranks };
    for mix in [Mix::Q4_K_M, Mix::Q5_K_M] {
        let folder = tempfile::tempdir().unwrap();
        let model = model_of(&folder, shape, mix);
        let reference = Reference::compute(&model).unwrap();
        let judge = |plan: Plan| -> Quality {
            let chunk = plan.prefill_chunk as usize;
            let (device, model) = (Arc::clone(&device), Arc::clone(&model));
            let gpu = GpuExecutor::new(device, model, plan, Sources::Embedded, Reference::SLOTS).unwrap();
            reference.evaluate(&mut Engine::new(Box::new(gpu), chunk)).unwrap()
        };
        for name in ["dot_subgroup", "dot_workgroup", "dot_columns", "int8_subgroup", "dealt", "dealt_int16"] {
            let plan = plan_of(&device, &model, name);
            let (numerics, choices) = (plan.numerics(), plan.choices.len());
            let quality = judge(plan);
            println!("{mix} {name} {numerics}, {choices} kernels: {quality:?}");
            assert!(choices > 0, "{mix} {name}");
            assert!(quality.passed(numerics), "{mix} {name}: {quality:?}");
            // Activations in int8 are no f32, and the gate of f32 sees it.
            let is_rough = numerics == Numerics::Int8Activations;
            assert_eq!(quality.passed(Numerics::F32), !is_rough, "{mix} {name}: {quality:?}");
        }
    }
}
