//! Long prompts and full batches: correct plans pass, and mistakes that only they show are noticed in every class.

use crate::quality::{model_of, plan_of};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use wgoose_graph::{LoraRanks, ModelShape, State};
use wgoose_kernels::{Catalogue, Plan, PrecisionClass};
use wgoose_loader::Model;
use wgoose_loader::synth::Mix;
use wgoose_measure::quality::{ExtendedQuality, ExtendedReference, ExtendedWorkload, Reference};
use wgoose_plans::catalogue;
use wgoose_runtime::CancelToken;
use wgoose_runtime::{
    Batch, CpuExecutor, Device, Engine, Executor, GpuExecutor, LoadReport, RuntimeError, StateData, Traced,
};

const SHAPE: ModelShape = ModelShape {
    layers: 2,
    width: 128,
    ffn: 256,
    head_size: 64,
    vocab: 256,
    ranks: LoraRanks { decay: 16, iclr: 16, value: 16, gate: 16 },
    deep_embed: None,
    embedding_norm: true,
    output_head: true,
};

/// The CPU reference with a mistake in how it is driven.
struct Mistaken {
    right: CpuExecutor,
    run: fn(&mut CpuExecutor, &Batch) -> Result<Vec<f32>, RuntimeError>,
}

impl Executor for Mistaken {
    fn shape(&self) -> &ModelShape {
        self.right.shape()
    }

    fn slots(&self) -> usize {
        self.right.slots()
    }

    fn run(&mut self, batch: &Batch) -> Result<Vec<f32>, RuntimeError> {
        (self.run)(&mut self.right, batch)
    }

    fn trace(&mut self, batch: &Batch, on_value: &mut dyn FnMut(&Traced<'_>)) -> Result<Vec<f32>, RuntimeError> {
        self.right.trace(batch, on_value)
    }

    fn state_tensor(&mut self, slot: usize, tensor: State) -> Result<Vec<f32>, RuntimeError> {
        self.right.state_tensor(slot, tensor)
    }

    fn set_state(&mut self, slot: usize, state: &StateData) -> Result<(), RuntimeError> {
        self.right.set_state(slot, state)
    }

    fn reset(&mut self, slots: Range<usize>) -> Result<(), RuntimeError> {
        self.right.reset(slots)
    }

    fn grow(&mut self, slots: usize) -> Result<usize, RuntimeError> {
        self.right.grow(slots)
    }

    fn fork(&self) -> Result<Box<dyn Executor>, RuntimeError> {
        self.right.fork()
    }

    fn in_f32(&self, slots: usize) -> Result<Box<dyn Executor>, RuntimeError> {
        self.right.in_f32(slots)
    }

    fn max_outputs(&self) -> usize {
        self.right.max_outputs()
    }

    fn report(&self) -> LoadReport {
        self.right.report()
    }
}

/// Tokens of a pass of the CPU's engines.
const CHUNK: usize = 128;

type Mistake = (&'static str, fn(&mut CpuExecutor, &Batch) -> Result<Vec<f32>, RuntimeError>);

const MISTAKES: [Mistake; 3] = [
    ("a chunk of a long prompt read twice", |right, batch| {
        if batch.segments.len() == 1 && batch.tokens.len() == CHUNK && batch.outputs.is_empty() {
            right.run(batch)?;
        }
        right.run(batch)
    }),
    ("a state slot swapped with its neighbour's at 33 of 64 sequences and more", |right, batch| {
        let mut batch = batch.clone();
        if batch.segments.len() >= 64 {
            let [a, b] = batch.segments.get_disjoint_mut([32, 33]).unwrap();
            std::mem::swap(&mut a.slot, &mut b.slot);
        }
        right.run(&batch)
    }),
    ("the last token of a prompt of 65 and more dropped", |right, batch| {
        let mut batch = batch.clone();
        if batch.segments.len() == 3 && batch.tokens.len() > 64 {
            *batch.tokens.last_mut().unwrap() = 0;
        }
        right.run(&batch)
    }),
];

fn cpu(model: &Arc<Model>) -> CpuExecutor {
    CpuExecutor::new(Arc::clone(model), ExtendedWorkload::SLOTS).unwrap()
}

/// Classes whose measure an engine passes.
fn passed(quality: &ExtendedQuality) -> Vec<String> {
    let classes = quality.agreements.iter().map(|agreement| agreement.class);
    classes.filter(|class| quality.passed_by(*class)).map(|class| class.to_string()).collect()
}

#[test]
fn mistakes_in_prefill_and_full_batches_are_noticed_in_every_class() {
    let folder = tempfile::tempdir().unwrap();
    let model = model_of(&folder, SHAPE, Mix::F16);
    let reference = Reference::compute(&model, &CancelToken::default()).unwrap();
    let workload = ExtendedWorkload::new(CHUNK, ExtendedWorkload::SLOTS, false);
    let right = Engine::new(Box::new(cpu(&model)), CHUNK);
    let extended = ExtendedReference::compute(&model, &reference, &right, workload).unwrap();
    let finest = PrecisionClass::default();
    let own = extended.evaluate(&mut right.in_f32(128).unwrap(), finest).unwrap();
    assert_eq!(passed(&own).len(), PrecisionClass::all().count(), "{own}");
    for (name, run) in MISTAKES {
        let mut engine = Engine::new(Box::new(Mistaken { right: cpu(&model), run }), CHUNK);
        let first = reference.evaluate(&mut engine, finest).unwrap();
        let quality = extended.evaluate(&mut engine, finest).unwrap();
        println!("{name}: {quality}; short prompts alone pass: {}", first.passed());
        assert!(passed(&quality).is_empty(), "{name} is not noticed by {:?}: {quality}", passed(&quality));
    }
}

/// The embedded kernels with an edit of one of them.
fn edited(folder: &Path, file: &str, from: &str, to: &str) -> Arc<Catalogue> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels-wgsl");
    let text = std::fs::read_to_string(own.join(file)).unwrap();
    assert_eq!(text.matches(from).count(), 1, "{file} has no such line");
    let path = folder.join("kernels").join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text.replace(from, to)).unwrap();
    catalogue::with_folder(&folder.join("kernels")).unwrap()
}

/// Slots where a device compiles slowly.
const SLOTS: usize = 8;

#[test]
fn wrong_kernels_of_many_rows_are_noticed_in_every_class() {
    let device = Device::open(None).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let model = model_of(&folder, SHAPE, Mix::F16);
    let reference = Reference::compute(&model, &CancelToken::default()).unwrap();
    let default = Plan::default_for(device.fingerprint().clone(), SHAPE, device.limits());
    let finest = PrecisionClass::default();
    let drops_a_row =
        ("matmul/gemm_tiled", "at_token < params.rows", "at_token + select(0u, 1u, params.rows > 256u) < params.rows");
    let leaves_out_a_part = ("matmul/gemm_tiled_splitk", "p < SPLIT_K;", "p < SPLIT_K - 1u;");
    for (name, (variant, from, to)) in [
        ("a tile's last row dropped at 300 tokens", drops_a_row),
        ("split-K parts summed without one", leaves_out_a_part),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let catalogue = edited(folder.path(), &format!("ops/{variant}.wgsl"), from, to);
        let variant = variant.rsplit('/').next().unwrap();
        let chosen = plan_of(&device, &model, &catalogue::embedded(), variant, "");
        assert!(!chosen.choices.is_empty(), "{variant}");
        let engine = |catalogue: &Arc<Catalogue>, plan: &Plan| {
            let choices =
                plan.choices.iter().map(|choice| choice.clone().for_key(choice.key.clone(), catalogue).unwrap());
            let plan = Plan { choices: choices.collect(), prefill_chunk: 304, ..default.clone() };
            let (device, model) = (Arc::clone(&device), Arc::clone(&model));
            let gpu = GpuExecutor::new(device, model, plan, Arc::clone(catalogue), SLOTS).unwrap();
            Engine::new(Box::new(gpu), 304)
        };
        let mut right = engine(&catalogue::embedded(), &chosen);
        let workload = ExtendedWorkload::new(304, SLOTS, false);
        let extended = ExtendedReference::compute(&model, &reference, &right, workload).unwrap();
        let own = extended.evaluate(&mut right, finest).unwrap();
        assert!(own.passed(), "{variant}: {own}");
        let mut wrong = engine(&catalogue, &chosen);
        let first = reference.evaluate(&mut wrong, finest).unwrap();
        let quality = extended.evaluate(&mut wrong, finest).unwrap();
        println!("{name}: {quality}; short prompts alone pass: {}", first.passed());
        assert!(passed(&quality).is_empty(), "{name} is not noticed by {:?}: {quality}", passed(&quality));
    }
}
