//! Op instances and devices to try kernels at; [`all`] in the order in which the golden numbers them.

use std::collections::BTreeSet;
use wgoose_graph::{
    BatchShape, Format, Fusion, LayerWeight, Level, LoraRanks, ModelShape, Op, OperandKind, Target, Weight,
    WeightClass, rewrite, rwkv7,
};
use wgoose_kernels::{Feature, Instance, Limits};

/// A device with all that kernels ask for.
pub(crate) fn wide() -> Limits {
    Limits {
        workgroup_threads: 1024,
        workgroup_memory: 48 << 10,
        storage_buffers: 20,
        features: BTreeSet::from([
            Feature::Subgroups,
            Feature::F16,
            Feature::CooperativeMatrix,
            Feature::CooperativeMatrix8,
        ]),
        min_subgroup: 32,
        multiprocessors: 132,
        ..Limits::webgpu()
    }
}

/// One with narrow subgroups and nothing else.
pub(crate) fn narrow() -> Limits {
    Limits { features: BTreeSet::from([Feature::Subgroups]), min_subgroup: 8, ..wide() }
}

/// One with little more than every WebGPU device has.
pub(crate) fn bare() -> Limits {
    Limits { storage_buffers: 10, multiprocessors: 132, ..Limits::webgpu() }
}

/// Every instance with the name of its device and its description.
pub(crate) fn all() -> Vec<(&'static str, String, Instance)> {
    let ranks = |decay, iclr, value, gate| LoraRanks { decay, iclr, value, gate };
    let (small, odd) = (ranks(32, 32, 16, 48), ranks(20, 4, 36, 8));
    let models = [
        ("small", ModelShape { layers: 2, width: 256, ffn: 512, head_size: 64, vocab: 512, ranks: small }),
        ("odd", ModelShape { layers: 2, width: 96, ffn: 160, head_size: 16, vocab: 77, ranks: odd }),
        ("2.9B", ModelShape { layers: 2, ..ModelShape::preset("2.9B").unwrap() }),
    ];
    let mut all = Vec::new();
    for (name, shape) in models {
        let mut seen: Vec<Instance> = Vec::new();
        for format in Format::all() {
            for instance in of_model(&shape, format) {
                if !seen.contains(&instance) {
                    seen.push(instance);
                }
            }
        }
        for instance in seen {
            let text = describe(&instance, name);
            all.push(("wide", text.clone(), instance.clone()));
            if name == "small" {
                all.push(("narrow", text, instance));
            }
        }
    }
    all
}

fn of_model(shape: &ModelShape, format: Format) -> Vec<Instance> {
    let stored = |w: Weight| {
        let [rows, cols] = w.shape(shape).map(|n| n as usize);
        let has_it = !format.is_k_major() || matches!(w, Weight::Layer(_, LayerWeight::FfnValue));
        match w.class() {
            WeightClass::Matrix if has_it && format.bytes(rows, cols).is_some() => format,
            WeightClass::Adapter if !format.is_quantised() && !format.is_k_major() => format,
            _ => Format::F16,
        }
    };
    let mut instances: Vec<Instance> = Vec::new();
    for fusions in Fusion::covering_sets() {
        for (tokens, segments, outputs) in [(1, 1, 1), (4, 4, 4), (16, 2, 2), (40, 1, 1), (512, 1, 16)] {
            let batch = BatchShape { tokens, segments, outputs };
            for target in [Target::Logits, Target::HiddenSum(Level::Final)] {
                let mut graph = rwkv7::forward_to(shape, target).unwrap();
                rewrite::apply(&mut graph, &fusions).unwrap();
                for id in graph.schedule().unwrap() {
                    let instance = Instance::of(&graph, id, &batch, &stored);
                    for instance in [shard(&instance), Some(instance)].into_iter().flatten() {
                        if !instances.contains(&instance) {
                            instances.push(instance);
                        }
                    }
                }
            }
        }
    }
    instances
}

/// A product with some of its matrix's rows, as those of a large one are bound.
fn shard(instance: &Instance) -> Option<Instance> {
    let (first, shard_rows) = (instance.m / 3, instance.m / 2);
    let is_product = matches!(instance.op, Op::Matmul { .. } | Op::MatmulAdd | Op::NormMatmul { .. });
    let mut part = Instance { first, shard_rows, ..instance.clone() };
    part.inputs.iter_mut().find(|i| i.kind == OperandKind::Matrix)?.rows = shard_rows;
    (is_product && instance.m > 4096).then_some(part)
}

fn describe(i: &Instance, model: &str) -> String {
    let formats: Vec<&str> = i.inputs.iter().filter_map(|i| i.format).map(Format::name).collect();
    let (op, formats) = (i.op.name(), formats.join(" "));
    format!(
        "{model} {op} k={} m={} window={} rows={} segments={} [{formats}]",
        i.k, i.m, i.shard_rows, i.rows, i.segments
    )
}

/// The instances of a two-layer model, unfused, fused, and fused but for the fusions that take in fused ops, with matrices in
/// that format, for passes of so many tokens.
pub(crate) fn small(matrix: Format, tokens: &[u32]) -> Vec<Instance> {
    with_ranks(LoraRanks { decay: 32, iclr: 32, value: 16, gate: 48 }, matrix, tokens)
}

/// The same, with adapters of other ranks.
pub(crate) fn with_ranks(ranks: LoraRanks, matrix: Format, tokens: &[u32]) -> Vec<Instance> {
    let shape = ModelShape { layers: 2, width: 256, ffn: 512, head_size: 64, vocab: 512, ranks };
    // Of a layer's matrices only one is ever K-major.
    let has_it = |w: Weight| !matrix.is_k_major() || matches!(w, Weight::Layer(_, LayerWeight::FfnValue));
    let format = |w: Weight| match w.class() {
        WeightClass::Matrix if has_it(w) => matrix,
        _ => Format::F16,
    };
    let mut instances = Vec::new();
    for fusions in Fusion::covering_sets() {
        for &tokens in tokens {
            let batch = BatchShape { tokens, segments: 1, outputs: 1 };
            for target in [Target::Logits, Target::HiddenSum(Level::Final)] {
                let mut graph = rwkv7::forward_to(&shape, target).unwrap();
                rewrite::apply(&mut graph, &fusions).unwrap();
                for id in graph.schedule().unwrap() {
                    let instance = Instance::of(&graph, id, &batch, &format);
                    if !instances.contains(&instance) {
                        instances.push(instance);
                    }
                }
            }
        }
    }
    instances
}
