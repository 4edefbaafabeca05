//! Op instances and a device to try kernels at.

use std::collections::BTreeSet;
use wgoose_graph::{
    BatchShape, Format, Fusion, LayerWeight, Level, LoraRanks, ModelShape, Op, Target, Weight, WeightClass, rewrite,
    rwkv7,
};
use wgoose_kernels::{Feature, Instance, Limits, Packed};

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

/// The instances of a two-layer model, unfused, fused, and fused but for the fusions that take in fused ops, with matrices in
/// that format and the WKV state in each of its own, for passes of so many tokens; and those of ops that RWKV-7a alone
/// has.
pub(crate) fn small(matrix: Format, tokens: &[u32]) -> Vec<Instance> {
    with_ranks(LoraRanks { decay: 32, iclr: 32, value: 16, gate: 48 }, matrix, tokens)
}

/// The same, with adapters of other ranks.
pub(crate) fn with_ranks(ranks: LoraRanks, matrix: Format, tokens: &[u32]) -> Vec<Instance> {
    let shape = ModelShape {
        layers: 2,
        width: 256,
        ffn: 512,
        head_size: 64,
        vocab: 512,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    };
    // Of a layer's matrices only one is ever K-major.
    let has_it = |w: Weight| !matrix.is_k_major() || matches!(w, Weight::Layer(_, LayerWeight::FfnValue));
    let format = |w: Weight| match w.class() {
        WeightClass::Matrix if has_it(w) => matrix,
        _ => Format::F16,
    };
    let mut instances: Vec<Instance> = Vec::new();
    for fusions in Fusion::covering_sets() {
        for &tokens in tokens {
            let batch = BatchShape { tokens, segments: 1, outputs: 1 };
            for target in [Target::Logits, Target::HiddenSum(Level::Final)] {
                let mut graph = rwkv7::forward_to(&shape, target).unwrap();
                rewrite::apply(&mut graph, &fusions).unwrap();
                for id in graph.schedule().unwrap() {
                    let plain = Instance::of(&graph, id, &batch, &format);
                    let packed = Packed { state: plain.op.updates_wkv(), ..Packed::default() };
                    for instance in [plain.clone(), Instance { packed, ..plain }] {
                        if !instances.contains(&instance) {
                            instances.push(instance);
                        }
                    }
                }
            }
        }
    }
    let deep = rwkv7::forward(&ModelShape { deep_embed: Some(32), ..shape }).unwrap();
    let of_deep_embed = deep.op_ids().find(|id| deep.op(*id).op == Op::TokenMatmul).unwrap();
    for &tokens in tokens {
        let batch = BatchShape { tokens, segments: 1, outputs: 1 };
        instances.push(Instance::of(&deep, of_deep_embed, &batch, &format));
    }
    instances
}
