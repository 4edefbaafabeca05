//! Fused steps without a device: their text is `golden/*.txt`, which `cargo xtask bless` writes anew.

mod sanitized;

use super::{FuseError, Unfused, fuse};
use crate::residency::{Group, Need, Placed, WeightLayout, route, shards_of};
use crate::schedule::{Choose, Memory, Places, Recording, StateLayout, Tensors, record};
use expect_test::expect_file;
use std::collections::BTreeSet;
use wgoose_graph::{
    BatchShape, Format, Fusion, Graph, LoraRanks, ModelShape, Target, Weight, WeightClass, rewrite, rwkv7,
};
use wgoose_kernels::persistent::can_be_stage;
use wgoose_kernels::plan::{Choice, TuningKey};
use wgoose_kernels::{
    Catalogue, DeviceFingerprint, Feature, HandOver, Instance, Kernel, Limits, Plan, Refusal, StateFormat,
};
use wgoose_plans::catalogue;

const ONE: BatchShape = BatchShape { tokens: 1, segments: 1, outputs: 1 };
const FOUR: BatchShape = BatchShape { tokens: 4, segments: 4, outputs: 4 };

/// Workgroups that stay resident, and their threads.
const WORKGROUPS: u32 = 132;
const THREADS: u32 = 256;

fn shape(layers: u32, width: u32) -> ModelShape {
    let ranks = LoraRanks { decay: 32, iclr: 32, value: 32, gate: 64 };
    ModelShape {
        layers,
        width,
        ffn: 4 * width,
        head_size: 64,
        vocab: 300,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    }
}

fn limits() -> Limits {
    Limits {
        workgroup_threads: 1024,
        workgroup_memory: 48 << 10,
        storage_buffers: 20,
        features: BTreeSet::from([Feature::Subgroups, Feature::F16, Feature::CoherentMemory]),
        min_subgroup: 32,
        multiprocessors: 132,
        ..Limits::webgpu()
    }
}

/// A step, of a single token unless said otherwise.
struct World {
    shape: ModelShape,
    batch: BatchShape,
    /// Of matrices.
    format: Format,
    limits: Limits,
    state: StateFormat,
    fusions: Vec<Fusion>,
    hand_over: HandOver,
}

/// The recording of a step, and the place of each operand and weight.
struct Step {
    graph: Graph,
    recording: Recording,
    memory: Memory,
    layout: WeightLayout,
}

impl World {
    fn new(layers: u32, width: u32, format: Format) -> Self {
        let fusions = vec![
            Fusion::NormShift,
            Fusion::LoraGroup,
            Fusion::Project,
            Fusion::TimeMixCore,
            Fusion::MatmulActivation,
            Fusion::MatmulResidual,
        ];
        let (shape, limits) = (shape(layers, width), limits());
        World { shape, batch: ONE, format, limits, state: StateFormat::F32, fusions, hand_over: HandOver::Barrier }
    }

    /// The same with norms in products.
    fn with_norms(mut self) -> Self {
        self.fusions.extend([Fusion::NormProject, Fusion::NormMatmul]);
        self
    }

    fn format_of(&self, weight: Weight) -> Format {
        match weight.class() {
            WeightClass::Matrix => self.format,
            WeightClass::Adapter => Format::F16,
            WeightClass::Vector => Format::F32,
        }
    }

    /// Kernels as wide as stages are.
    fn choices(&self, graph: &Graph, catalogue: &Catalogue) -> Vec<Choice> {
        let mut choices: Vec<Choice> = Vec::new();
        for id in graph.op_ids().filter(|id| graph.op(*id).layer.is_some()) {
            let instance = Instance::of(graph, id, &self.batch, &|weight| self.format_of(weight));
            let key = TuningKey::of(&instance);
            if choices.iter().any(|c| c.key == key) {
                continue;
            }
            let mut configs =
                catalogue.variants(&key.op).iter().flat_map(|v| v.configs().into_iter().map(move |c| (v, c)));
            let fits = |kernel: Kernel| can_be_stage(&kernel, THREADS) && kernel.facts.workgroup_memory <= 2 << 10;
            let found = configs.find(|(v, c)| Kernel::new(v, &instance, c, &self.limits).is_ok_and(fits));
            choices.extend(found.map(|(variant, config)| Choice::new(key, variant, &config).unwrap()));
        }
        choices
    }

    fn step(&self) -> Step {
        let text = String::new;
        let (adapter, driver, backend, wgpu) = (text(), text(), text(), text());
        let device = DeviceFingerprint { adapter, vendor: 0, device: 0, driver, backend, wgpu };
        let catalogue = catalogue::embedded();
        let mut graph = rwkv7::forward_to(&self.shape, Target::Logits).unwrap();
        rewrite::apply(&mut graph, &self.fusions.iter().copied().collect()).unwrap();
        let choices = self.choices(&graph, &catalogue);
        let plan = Plan { choices, state: self.state, ..Plan::default_for(device, self.shape, &self.limits) };
        let shards =
            |weight: Weight| shards_of(weight, self.format_of(weight), weight.shape(&self.shape), &self.limits);
        let tensors = Tensors {
            format: &|weight| self.format_of(weight),
            shards: &|weight| Ok(shards(weight)?.iter().map(|s| s.first..s.first + s.rows).collect()),
        };
        let choose = Choose { plan: &plan, like_rows: None, limits: &self.limits, catalogue: &catalogue };
        let recording = record(&graph, &self.batch, &tensors, &choose).unwrap();
        let weights_of = |dispatch: &crate::schedule::Dispatch| {
            let of = |(_, bound): &(u32, crate::schedule::Bound)| match bound {
                crate::schedule::Bound::Weight(weight, index) => Some(shards(*weight).unwrap()[*index]),
                _ => None,
            };
            Need { shards: dispatch.bindings.iter().filter_map(of).collect() }
        };
        let needs: Vec<Need> = recording.dispatches.iter().map(weights_of).collect();
        let mut layout = WeightLayout::default();
        layout.assign(needs.iter().flat_map(|n| &n.shards).copied(), &self.limits);
        let groups: Vec<Group> = route(&needs, &|w| layout.is_streamed(w), 0).unwrap();
        assert!(groups.iter().flat_map(|g| &g.weights).all(|placed| placed.ring.is_none()));
        let memory = self.memory(&recording, &layout);
        Step { graph, recording, memory, layout }
    }

    fn memory(&self, recording: &Recording, layout: &WeightLayout) -> Memory {
        let states = StateLayout::new(&self.shape, self.state, 2, &self.limits);
        let weight = |_: usize, weight: Weight, index: usize| {
            let shards = shards_of(weight, self.format_of(weight), weight.shape(&self.shape), &self.limits).unwrap();
            layout.range(&Placed { shard: shards[index], ring: None })
        };
        Memory::new(recording, &self.batch, &Places { states: &states, weight: &weight }, &self.limits)
    }

    /// The fused step as text: what it runs, and where everything lies; or why there is none.
    fn fused(&self) -> String {
        let Step { graph, recording, memory, layout } = self.step();
        match fuse(&graph, (&recording, &memory), (WORKGROUPS, self.hand_over), &self.limits, &catalogue::embedded()) {
            Ok(fused) => {
                let memory = self.memory(&fused.recording, &layout);
                let mut text =
                    format!("{} of {} layers fused\n{}{memory}", fused.layers, self.shape.layers, fused.recording);
                for (number, offsets) in fused.recording.offsets.iter().enumerate() {
                    text += &format!("offsets{number} {offsets:?}\n");
                }
                // What a layer calls, and where it waits.
                for kernel in &fused.recording.kernels {
                    text += kernel.wgsl.find("    for (var layer = ").map_or("", |at| &kernel.wgsl[at..]);
                }
                text
            }
            Err(FuseError::Unfused(why)) => format!("{why}\n"),
            Err(FuseError::Text(wrong)) => panic!("{wrong}"),
        }
    }

    fn refused(&self, workgroups: u32) -> Unfused {
        let Step { graph, recording, memory, .. } = self.step();
        match fuse(&graph, (&recording, &memory), (workgroups, self.hand_over), &self.limits, &catalogue::embedded()) {
            Err(FuseError::Unfused(why)) => why,
            Ok(fused) => panic!("{}", fused.recording),
            Err(FuseError::Text(wrong)) => panic!("{wrong}"),
        }
    }
}

#[test]
fn megakernels_match_their_golden_text() {
    let worlds = [
        ("f16", World::new(4, 256, Format::F16)),
        ("q4_k", World::new(4, 256, Format::Q4_K)),
        ("q8_0-wide", World::new(3, 512, Format::Q8_0)),
        ("f16-state", World { state: StateFormat::F16, ..World::new(3, 256, Format::F16) }),
        ("one-layer", World::new(1, 256, Format::F16)),
        ("announced", World { hand_over: HandOver::Announced, ..World::new(4, 256, Format::Q4_K) }),
        // Several dispatches store a value, a shard of its rows each: those before and behind them wait at barriers.
        (
            "announced-in-part",
            World {
                hand_over: HandOver::Announced,
                limits: Limits { storage_binding: 384 << 10, storage_buffers: 40, ..limits() },
                ..World::new(4, 256, Format::F16)
            },
        ),
        // Norms in products: every workgroup reads a state that a later stage overwrites.
        ("announced-norms", World { hand_over: HandOver::Announced, ..World::new(4, 256, Format::F16).with_norms() }),
        // No kernel of lora_down is as wide as the others: it cuts every layer in two.
        (
            "cut-by-lora-down",
            World { fusions: vec![Fusion::NormShift, Fusion::LoraGroup], ..World::new(3, 256, Format::F16) },
        ),
        // A token of each of several sequences, and several of one.
        ("four-sequences", World { batch: FOUR, ..World::new(3, 256, Format::F16) }),
        (
            "four-tokens",
            World { batch: BatchShape { segments: 1, outputs: 1, ..FOUR }, ..World::new(3, 256, Format::Q4_K) },
        ),
    ];
    for (name, world) in worlds {
        expect_file![format!("golden/{name}.txt")].assert_eq(&world.fused());
    }
}

#[test]
fn a_megakernel_binds_the_operands_of_its_phases() {
    let world = World::new(4, 256, Format::F16);
    let Step { graph, recording, memory, layout } = world.step();
    let fused =
        fuse(&graph, (&recording, &memory), (WORKGROUPS, world.hand_over), &world.limits, &catalogue::embedded())
            .unwrap();
    let fused = world.memory(&fused.recording, &layout);
    let all: Vec<_> = fused.operands.iter().flatten().map(|operand| operand.range).collect();
    for operand in memory.operands.iter().flatten().filter(|o| o.range.buffer != crate::schedule::BufferId::Params) {
        let within = |range: &crate::schedule::BufferRange| {
            range.buffer == operand.range.buffer
                && range.offset <= operand.range.offset
                && operand.range.end() <= range.end()
        };
        assert!(all.iter().any(within), "{}", operand.range);
    }
}

#[test]
fn a_refused_megakernel_gives_the_reason() {
    let world = World::new(3, 256, Format::F16);
    let mut limits = limits();
    limits.features.remove(&Feature::CoherentMemory);
    let device = World { limits, ..World::new(3, 256, Format::F16) }.refused(WORKGROUPS);
    let launch = world.refused(1 << 20);
    for (refused, is) in [
        (device, Refusal::Feature(Feature::CoherentMemory)),
        (launch, Refusal::None("it has no workgroups, or more than the device dispatches")),
    ] {
        let stage = match &refused {
            Unfused::Alone(first) => first,
            other => other,
        };
        assert!(matches!(stage, Unfused::Stage { kernel, why } if *why == is && !kernel.is_empty()), "{refused:?}");
        assert_eq!(refused.to_string().lines().count(), 1, "{refused}");
    }
}
