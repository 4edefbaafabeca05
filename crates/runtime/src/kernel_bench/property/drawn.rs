//! A random case: a model, a batch, a format, one of the op's instances, a configuration, the numbers.

use crate::kernel_bench::Numbers;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use wgoose_graph::{
    BatchShape, Format, Fusion, LayerWeight, Level, LoraRanks, ModelShape, Op, OperandKind, Target, Weight,
    WeightClass, rewrite, rwkv7,
};
use wgoose_kernels::{Config, Instance, Packed, Precision, SpelledConfig, Variant};

/// A case as a file holds it: a kernel, and everything that its operands depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawnCase {
    /// The op's name.
    pub op: String,
    /// The variant's name.
    pub variant: String,
    /// Its configuration.
    pub config: SpelledConfig,
    /// The model.
    pub model: ModelShape,
    /// Tokens of the batch.
    pub tokens: u32,
    /// Segments of the batch.
    pub segments: u32,
    /// Requested outputs.
    pub outputs: u32,
    /// The format of matrices that can have it.
    pub format: Format,
    /// Which of the op's instances, the distinct ones being numbered in the order of the forward pass.
    pub instance: usize,
    /// What numbers the operands have.
    pub numbers: Numbers,
    /// Seed of the operands' numbers.
    pub seed: u64,
    /// Whether x is packed f16.
    #[serde(default)]
    pub x_packed: bool,
    /// Whether y is packed f16.
    #[serde(default)]
    pub y_packed: bool,
    /// Whether the WKV state is packed f16.
    #[serde(default)]
    pub state_packed: bool,
}

impl DrawnCase {
    pub(super) fn instance(&self) -> Option<Instance> {
        let batch = BatchShape { tokens: self.tokens, segments: self.segments, outputs: self.outputs };
        let plain = instances(&self.model, &batch, self.format, &self.op).into_iter().nth(self.instance)?;
        let packed = Packed { x: self.x_packed, y: self.y_packed, state: self.state_packed };
        Some(Instance { packed, ..plain })
    }
}

/// A case as it is drawn; the instance and the first configuration are taken modulo what there is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw {
    model: ModelShape,
    batch: BatchShape,
    format: Format,
    instance: usize,
    config: usize,
    numbers: Numbers,
    seed: u64,
}

/// Sizes that suit every variant at every configuration: 4096 columns give 256 threads work.
const SUITS_ALL: ModelShape = ModelShape {
    layers: 2,
    width: 256,
    ffn: 4096,
    head_size: 64,
    vocab: 300,
    ranks: LoraRanks { decay: 32, iclr: 64, value: 32, gate: 96 },
    deep_embed: None,
    embedding_norm: true,
    output_head: true,
};

/// Random cases of a variant in these formats, of which there is one at least.
pub(super) fn draws(variant: &Variant, formats: BTreeSet<Format>) -> impl Strategy<Value = Draw> {
    let edges = edges(variant);
    let models = prop_oneof![2 => models(edges.clone()), 1 => Just(SUITS_ALL)];
    let batches = prop_oneof![
        3 => (1u32..40, 1u32..4, 1u32..4),
        1 => Just((1, 1, 1)),
        1 => (2u32..9).prop_map(|n| (n, n, n)),
        2 => (prop::sample::select(edges), 1u32..4, 1u32..4),
    ];
    let formats = prop::sample::select(formats.into_iter().collect::<Vec<_>>());
    let numbers = prop::sample::select(Numbers::ALL.to_vec());
    let rest = (any::<u16>(), any::<u16>(), numbers, any::<u64>());
    (models, batches, formats, rest).prop_map(
        |(model, (tokens, segments, outputs), format, (instance, config, numbers, seed))| {
            let tokens = tokens.max(segments);
            let batch = BatchShape { tokens, segments, outputs: outputs.min(tokens) };
            let (model, instance, config) = (suited(model, format), instance.into(), config.into());
            Draw { model, batch, format, instance, config, numbers, seed }
        },
    )
}

/// Tiles that kernels have without saying so.
const USUAL_TILES: [u32; 4] = [16, 32, 64, 128];

/// The largest tile at whose edges a variant is tested.
const LARGEST_TILE: u32 = 256;

/// Sizes at the edges of a variant's tiles: one less, the same, one more, two tiles and a rest. What its tunables say
/// may be the side of a tile is taken for one.
fn edges(variant: &Variant) -> Vec<u32> {
    let edges: BTreeSet<u32> =
        tiles(variant).into_iter().chain(USUAL_TILES).flat_map(|t| [t - 1, t, t + 1, 2 * t + 1]).collect();
    edges.into_iter().collect()
}

/// What the tunables of a variant say may be the side of a tile.
fn tiles(variant: &Variant) -> BTreeSet<u32> {
    let said = variant.tunables().filter(|(name, _)| !name.starts_with("WG")).flat_map(|(_, all)| all);
    let sizes = said.filter_map(|choice| choice.trim_end_matches('u').parse().ok());
    sizes.filter(|size| (2..=LARGEST_TILE).contains(size)).collect()
}

/// The largest tile of a variant, as far as its tunables say, and no smaller than kernels often have.
pub(super) fn largest_tile(variant: &Variant) -> u32 {
    tiles(variant).last().copied().unwrap_or(0).max(USUAL_TILES[1])
}

/// The op's smallest instances with so many rows, in a format: those of a narrow model, then those where every size
/// suits.
pub(super) fn where_small(op: &str, format: Format, rows: u32) -> Vec<Placed> {
    let narrow = ModelShape { width: 128, ffn: 256, vocab: 200, ..SUITS_ALL };
    let batch = BatchShape { tokens: rows, segments: 1, outputs: rows };
    let mut all = Vec::new();
    for model in [suited(narrow, format), SUITS_ALL] {
        let of = |(i, instance): (usize, Instance)| {
            let draw = Draw { model, batch, format, instance: i, config: 0, numbers: Numbers::Even, seed: rows.into() };
            Placed { draw, instance }
        };
        let mut placed: Vec<Placed> = instances(&model, &batch, format, op).into_iter().enumerate().map(of).collect();
        placed.sort_by_key(|placed| u64::from(placed.instance.k) * u64::from(placed.instance.m));
        all.extend(placed);
    }
    all
}

/// The op's instances where every size suits, in every format: for one token, for several, and for one of each of many
/// sequences, where kernels are used that are for no other batch.
pub(in super::super) fn where_all_suits(op: &str) -> Vec<Placed> {
    let mut all = Vec::new();
    for format in Format::all() {
        for (tokens, segments, outputs) in [(1, 1, 1), (17, 2, 2), (6, 6, 6)] {
            let batch = BatchShape { tokens, segments, outputs };
            let of = |(i, instance)| {
                let draw = Draw {
                    model: SUITS_ALL,
                    batch,
                    format,
                    instance: i,
                    config: 0,
                    numbers: Numbers::ALL[i % 4],
                    seed: i as u64,
                };
                Placed { draw, instance }
            };
            all.extend(instances(&SUITS_ALL, &batch, format, op).into_iter().enumerate().map(of));
        }
    }
    all
}

/// A draw with the op instance that it means.
#[derive(Clone, Debug)]
pub(in super::super) struct Placed {
    draw: Draw,
    pub(super) instance: Instance,
}

impl Draw {
    /// The op instance, if the model has any.
    pub(super) fn placed(self, op: &str) -> Option<Placed> {
        let mut all = instances(&self.model, &self.batch, self.format, op);
        let at = self.instance.checked_rem(all.len())?;
        Some(Placed { draw: Draw { instance: at, ..self }, instance: all.swap_remove(at) })
    }

    /// The variant's configurations, from the drawn one on.
    pub(super) fn configs(&self, variant: &Variant) -> Vec<Config> {
        let mut all = variant.configs();
        let first = self.config % all.len().max(1);
        all.rotate_left(first);
        all
    }
}

impl Placed {
    /// The format of matrices that can have it.
    pub(in super::super) fn format(&self) -> Format {
        self.draw.format
    }

    /// The op instance.
    pub(in super::super) fn into_instance(self) -> Instance {
        self.instance
    }

    /// As a file holds it, with the configuration that ran.
    pub(super) fn saved(&self, op: &str, variant: &Variant, config: &Config, precision: Precision) -> DrawnCase {
        let Draw { model, batch, format, instance, numbers, seed, .. } = self.draw;
        let numbers = numbers.for_precision(precision);
        let BatchShape { tokens, segments, outputs } = batch;
        let (op, config) = (op.to_owned(), variant.spell(config));
        let variant = variant.name().to_owned();
        DrawnCase {
            op,
            variant,
            config,
            model,
            tokens,
            segments,
            outputs,
            format,
            instance,
            numbers,
            seed,
            x_packed: false,
            y_packed: false,
            state_packed: false,
        }
    }
}

fn models(edges: Vec<u32>) -> impl Strategy<Value = ModelShape> {
    let ranks = |of: Vec<u32>| prop::array::uniform4(prop::sample::select(of));
    let ranks = prop_oneof![ranks(vec![4, 20, 32, 64, 96]), ranks(vec![32, 64, 96])];
    let head_size = prop::sample::select(vec![16u32, 32, 64, 128]);
    // Even and odd numbers of the tiles along K.
    let ffn = prop_oneof![3 => 1u32..6, 1 => 6u32..24];
    let vocab = prop_oneof![1 => 1u32..300, 1 => prop::sample::select(edges)];
    (head_size, 1u32..5, ffn, vocab, ranks).prop_map(|(head_size, heads, ffn, vocab, [decay, iclr, value, gate])| {
        let width = (64 * heads).next_multiple_of(head_size);
        let ranks = LoraRanks { decay, iclr, value, gate };
        ModelShape {
            layers: 2,
            width,
            ffn: 32 * ffn,
            head_size,
            vocab,
            ranks,
            deep_embed: None,
            embedding_norm: true,
            output_head: true,
        }
    })
}

/// K-quants need rows of 256.
fn suited(model: ModelShape, format: Format) -> ModelShape {
    match format.block_weights() {
        256 => ModelShape { width: 256, ffn: 256 * model.ffn.div_ceil(256), ..model },
        _ => model,
    }
}

/// The distinct instances of an op in a model's pass, whatever fusions make it: of RWKV-7, or of RWKV-7a where the op
/// is DeepEmbed's alone.
fn instances(model: &ModelShape, batch: &BatchShape, format: Format, op: &str) -> Vec<Instance> {
    let deep = ModelShape { deep_embed: Some(model.ranks.decay), ..*model };
    let plain = instances_of(model, batch, format, op);
    if plain.is_empty() { instances_of(&deep, batch, format, op) } else { plain }
}

/// The distinct instances of an op in the pass of that very model. Matrices whose rows do not fill a block are F16; of
/// those of a layer only one is ever K-major.
fn instances_of(model: &ModelShape, batch: &BatchShape, format: Format, op: &str) -> Vec<Instance> {
    let stored = |w: Weight| {
        let [rows, cols] = w.shape(model).map(|n| n as usize);
        let has_it = !format.is_k_major() || matches!(w, Weight::Layer(_, LayerWeight::FfnValue));
        match w.class() {
            WeightClass::Matrix if has_it && format.bytes(rows, cols).is_some() => format,
            WeightClass::Adapter if !format.is_quantised() && !format.is_k_major() => format,
            _ => Format::F16,
        }
    };
    let mut instances: Vec<Instance> = Vec::new();
    let sets = Fusion::covering_sets();
    for (fusions, target) in sets.iter().flat_map(|f| [(f, Target::Logits), (f, Target::HiddenSum(Level::Final))]) {
        // A model that cannot be built, or fused so, has none of these instances.
        let Ok(mut graph) = rwkv7::forward_to(model, target) else { continue };
        if rewrite::apply(&mut graph, fusions).is_err() {
            continue;
        }
        for id in graph.schedule().unwrap_or_default().into_iter().filter(|id| graph.op(*id).op.name() == op) {
            let instance = Instance::of(&graph, id, batch, &stored);
            for instance in [row_shard(&instance), Some(instance)].into_iter().flatten() {
                if !instances.contains(&instance) {
                    instances.push(instance);
                }
            }
        }
    }
    instances
}

/// A product with some of its matrix's rows, as those of a large one are bound.
fn row_shard(instance: &Instance) -> Option<Instance> {
    let (first, shard_rows) = (instance.m / 3, instance.m / 2);
    let is_product = matches!(instance.op, Op::Matmul { .. } | Op::MatmulAdd | Op::NormMatmul { .. });
    let mut part = Instance { first, shard_rows, ..instance.clone() };
    part.inputs.iter_mut().find(|i| i.kind == OperandKind::Matrix)?.rows = shard_rows;
    (is_product && shard_rows > 0).then_some(part)
}
