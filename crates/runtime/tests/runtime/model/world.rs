//! Tiny models and the engines that run them.

use std::sync::Arc;
use wgoose_graph::{Fusion, FusionSet, LoraRanks, ModelShape};
use wgoose_kernels::Plan;
use wgoose_kernels::persistent::NEEDS;
use wgoose_kernels::plan::{Fusions, bindable_fusions};
use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write};
use wgoose_loader::{Container, Model};
use wgoose_plans::catalogue;
use wgoose_runtime::{Device, Engine, Outputs, RuntimeError, Sequence, StateData};

/// Two layers of four heads, the least that K-quants allow; four different ranks, so that no adapter fits for another.
pub(crate) const SHAPE: ModelShape = ModelShape {
    layers: 2,
    width: 256,
    ffn: 512,
    head_size: 64,
    vocab: 320,
    ranks: LoraRanks { decay: 32, iclr: 24, value: 16, gate: 48 },
    deep_embed: None,
    embedding_norm: true,
    output_head: true,
};

/// A synthetic model of [`SHAPE`].
pub(crate) fn model(mix: Mix) -> Arc<Model> {
    model_of(SHAPE, mix)
}

/// A synthetic model. Its folder is removed once the file is mapped.
pub(crate) fn model_of(shape: ModelShape, mix: Mix) -> Arc<Model> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    // GGUF has no names for DeepEmbed.
    let container = if shape.deep_embed.is_some() { Container::Safetensors } else { Container::Gguf };
    let options = SynthOptions { shape, seed: 1, container, mix, hot: false, ffn_zeros: None, vocabulary: None };
    write(&options, &path, &mut unwatched).unwrap();
    Arc::new(Model::open(path).unwrap())
}

/// The default device.
pub(crate) fn device() -> Arc<Device> {
    Device::open(None).unwrap()
}

/// The default plan.
pub(crate) fn gpu(device: &Arc<Device>, model: &Arc<Model>, slots: usize) -> Engine {
    planned(device, model, default_plan(device, model), slots).unwrap()
}

/// The default plan but for its fusions.
pub(crate) fn fused(
    device: &Arc<Device>,
    model: &Arc<Model>,
    fusions: FusionSet,
    slots: usize,
) -> Result<Engine, RuntimeError> {
    planned(device, model, Plan { fusions: Fusions::all(fusions), ..default_plan(device, model) }, slots)
}

/// Storage buffers with which a device can bind every fusion (tests of [`bindable_fusions`]).
const BUFFERS_FOR_ALL: u32 = 20;

/// The bindable part of each set of fusions, without repetition. A full device binds all fusions; every device binds
/// some.
pub(crate) fn bindable(device: &Device, sets: impl IntoIterator<Item = FusionSet>) -> Vec<FusionSet> {
    let fits = bindable_fusions(&SHAPE, device.limits());
    assert!(!fits.is_empty() && (fits.len() == Fusion::ALL.len() || device.limits().storage_buffers < BUFFERS_FOR_ALL));
    let mut bindable: Vec<FusionSet> = Vec::new();
    for set in sets {
        let set = &set & &fits;
        if !bindable.contains(&set) {
            bindable.push(set);
        }
    }
    bindable
}

/// Whether a test of the persistent kernel has nothing to say here, which it then says: the device lacks a feature for
/// it.
pub(crate) fn skips_persistent(device: &Device) -> bool {
    let lacking = NEEDS.into_iter().find(|feature| !device.limits().features.contains(feature));
    if let Some(feature) = lacking {
        eprintln!("skipped: the device has no {feature}, so that no kernel persists");
    }
    lacking.is_some()
}

/// The plan of a device that was never tuned.
pub(crate) fn default_plan(device: &Device, model: &Model) -> Plan {
    Plan::default_for(device.fingerprint().clone(), *model.shape(), device.limits())
}

/// Any plan.
pub(crate) fn planned(
    device: &Arc<Device>,
    model: &Arc<Model>,
    plan: Plan,
    slots: usize,
) -> Result<Engine, RuntimeError> {
    Engine::gpu(Arc::clone(device), Arc::clone(model), plan, catalogue::embedded(), slots)
}

/// The CPU reference.
pub(crate) fn cpu(model: &Arc<Model>, slots: usize) -> Engine {
    Engine::cpu(Arc::clone(model), slots).unwrap()
}

/// A fixed, well-mixed sequence of ids of [`SHAPE`] (Knuth's multiplicative hash of the position).
pub(crate) fn tokens(seed: u32, count: usize) -> Vec<u32> {
    (1..=count as u32).map(|i| ((i + seed * 7919).wrapping_mul(2_654_435_761) >> 8) % SHAPE.vocab).collect()
}

/// Tokens of which every logit is wanted.
pub(crate) fn all(slot: usize, tokens: &[u32]) -> Sequence<'_> {
    Sequence { slot, tokens, outputs: Outputs::All }
}

/// All logits of one sequence in slot 0.
pub(crate) fn read(engine: &mut Engine, tokens: &[u32]) -> Vec<f32> {
    engine.forward(&[all(0, tokens)]).unwrap().remove(0)
}

/// Forgets what a slot has read.
pub(crate) fn forget(engine: &mut Engine, slot: usize) {
    let zero = StateData::zero(engine.shape());
    engine.set_state(slot, &zero).unwrap();
}
