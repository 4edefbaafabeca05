//! Recordings for a device with matrix units, without one.

use super::{Bound, Choose, Recording, Tensors, record};
use std::collections::{BTreeMap, BTreeSet};
use wgoose_graph::{BatchShape, Format, Graph, LoraRanks, ModelShape, Target, WeightClass, rewrite, rwkv7};
use wgoose_kernels::{Catalogue, DeviceFingerprint, Feature, Limits, Plan, Precision};
use wgoose_plans::catalogue;

const SHAPE: ModelShape = ModelShape {
    layers: 3,
    width: 256,
    ffn: 1024,
    head_size: 64,
    vocab: 300,
    ranks: LoraRanks { decay: 32, iclr: 32, value: 32, gate: 64 },
    deep_embed: None,
    embedding_norm: true,
    output_head: true,
};

/// The recording of a device with matrix units without a plan, in a class of precision.
fn recorded(tokens: u32, precision: Precision) -> (Graph, Recording) {
    recorded_like(tokens, None, precision)
}

/// The same with the bits of so many rows.
fn recorded_like(tokens: u32, like_rows: Option<u32>, precision: Precision) -> (Graph, Recording) {
    let plan = |device, limits: &Limits, catalogue: &Catalogue| {
        Plan::default_for(device, SHAPE, limits).at_most(precision, catalogue)
    };
    recorded_of(&SHAPE, (tokens, 1), like_rows, &plan)
}

/// A plan for a device.
type Planned<'a> = &'a dyn Fn(DeviceFingerprint, &Limits, &Catalogue) -> Plan;

/// The recording of a model's pass over tokens of several sequences, by a plan.
fn recorded_of(
    model: &ModelShape,
    (tokens, segments): (u32, u32),
    like_rows: Option<u32>,
    plan: Planned<'_>,
) -> (Graph, Recording) {
    let limits = Limits {
        workgroup_threads: 1024,
        workgroup_memory: 48 << 10,
        storage_buffers: 20,
        features: BTreeSet::from([Feature::Subgroups, Feature::F16, Feature::CooperativeMatrix]),
        min_subgroup: 32,
        multiprocessors: 132,
        ..Limits::webgpu()
    };
    let text = String::new;
    let (adapter, driver, backend, wgpu) = (text(), text(), text(), text());
    let device = DeviceFingerprint { adapter, vendor: 0, device: 0, driver, backend, wgpu };
    let catalogue = catalogue::embedded();
    let plan = plan(device, &limits, &catalogue);
    let mut graph = rwkv7::forward_to(model, Target::Logits).unwrap();
    rewrite::apply(&mut graph, &plan.fusions.prefill).unwrap();
    let tensors = Tensors {
        format: &|weight| if weight.class() == WeightClass::Matrix { Format::F16 } else { Format::F32 },
        shards: &|weight| Ok(std::iter::once(0..weight.shape(model)[0]).collect()),
    };
    let like_rows = like_rows.or(plan.alike(Target::Logits));
    let choose = Choose { plan: &plan, like_rows, limits: &limits, catalogue: &catalogue };
    let recording = record(&graph, &BatchShape { tokens, segments, outputs: segments }, &tensors, &choose).unwrap();
    (graph, recording)
}

#[test]
fn values_read_by_products_only_are_packed() {
    let (graph, recording) = recorded(100, Precision::F16);
    let mut packed: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for id in &recording.packed {
        *packed.entry((graph.op(*id).op.name(), graph.op(*id).role)).or_default() += 1;
    }
    let layers: Vec<u32> = packed.values().copied().collect();
    let ops: BTreeSet<&str> = packed.keys().map(|(op, _)| *op).collect();
    assert_eq!(ops, BTreeSet::from(["norm_shift", "head_output", "matmul"]), "{packed:?}");
    assert_eq!(layers, [3, 3, 3, 3], "{packed:?}");
    // Bound with two bytes a value: y of head_output and x of its reader.
    for name in ["head_output", "matmul_add"] {
        let of_op = |dispatch: &&super::Dispatch| graph.op(dispatch.node).op.name() == name;
        let dispatch = recording.dispatches.iter().find(of_op).unwrap();
        let bound = |(_, bound): &(u32, Bound)| matches!(bound, Bound::Slot { size, .. } if *size == 100 * 256 * 2);
        assert!(dispatch.bindings.iter().any(bound), "{name}: {:?}", dispatch.bindings);
    }
}

#[test]
fn values_of_f32_plans_and_of_decode_are_not_packed() {
    assert!(recorded(100, Precision::F32).1.packed.is_empty());
    assert!(recorded(1, Precision::F16).1.packed.is_empty());
}

#[test]
fn f32_products_take_the_matrix_units_where_weights_are_f16() {
    let (graph, recording) = recorded(100, Precision::F32);
    let key = |dispatch: &&super::Dispatch| graph.op(dispatch.node).role == "att.key";
    let dispatch = recording.dispatches.iter().find(key).unwrap();
    assert!(recording.kernels[dispatch.kernel].label.contains("halves=two"), "{recording}");
}

#[test]
fn few_rows_with_the_bits_of_many_take_small_tiles() {
    let labels = |tokens, like_rows| -> BTreeMap<&'static str, String> {
        let (graph, recording) = recorded_like(tokens, like_rows, Precision::F16);
        let named = |d: &super::Dispatch| (graph.op(d.node).role, recording.kernels[d.kernel].label.clone());
        recording.dispatches.iter().map(named).collect()
    };
    let (many, few) = (labels(2048, None), labels(18, None));
    let alike = [3, 18, 111].map(|tokens| labels(tokens, Some(2048)));
    for role in ["att.projections", "att.output", "ffn.key"] {
        for alike in &alike {
            assert!(alike[role].contains("gemm_coop_32x64"), "{role}: {}", alike[role]);
        }
        assert!(few[role].contains("gemm_coop_splitk"), "{role}: {}", few[role]);
        assert!(many[role].contains("gemm_coop_128x"), "{role}: {}", many[role]);
    }
    // What no other kernel adds up alike is the kernel of many rows.
    for role in ["att.wkv", "att.shift", "att.gated"] {
        assert!(alike.iter().all(|alike| alike[role] == many[role]), "{role}");
    }
}

/// Of each op the kernels for any number of tokens and sequences are one, or tiles of different sizes that add up along
/// all of K alike.
#[test]
fn kernels_of_an_invariant_plan_do_not_depend_on_the_batch() {
    let plan =
        |device, limits: &Limits, _: &Catalogue, model| Plan::default_for(device, model, limits).batch_invariant();
    for heads in [12, 32, 40, 64] {
        let model = ModelShape { width: heads * 64, ffn: heads * 256, ..SHAPE };
        let kernels = |tokens, segments| -> BTreeMap<&'static str, String> {
            let planned = |device, limits: &Limits, catalogue: &Catalogue| plan(device, limits, catalogue, model);
            let (graph, recording) = recorded_of(&model, (tokens, segments), None, &planned);
            let label = |d: &super::Dispatch| {
                let label = &recording.kernels[d.kernel].label;
                assert!(!label.contains("streamk"), "its workgroups share K by the number of tiles: {label}");
                let tiles = label.contains("/gemm_coop") && !label.contains("splitk");
                if tiles { "tiles".to_owned() } else { label.clone() }
            };
            recording.dispatches.iter().map(|d| (graph.op(d.node).role, label(d))).collect()
        };
        let long = kernels(1000, 1);
        for (tokens, segments) in [(1, 1), (2, 2), (17, 1), (32, 32), (100, 3), (256, 256), (1000, 16)] {
            assert_eq!(kernels(tokens, segments), long, "{heads} heads, {tokens} tokens of {segments} sequences");
        }
    }
}
