//! Which values are stored as packed f16: those that one kernel can write so and every reader rounds to f16 anyway, so that
//! storing them changes no bit of a result. Kernels are chosen first; what they can do decides.

use super::{Choose, Chosen};
use std::collections::{BTreeSet, HashMap};
use wgoose_graph::{Graph, NodeId, Use};
use wgoose_kernels::{Instance, Packed, StateFormat};

/// An op's dispatches, one a row shard: their instances by number.
pub(super) type Shards = (NodeId, Vec<usize>);

/// The values that are packed, of ops with these instances, which take these variants.
pub(super) fn packed_values(
    graph: &Graph,
    ops: &[Shards],
    instances: &[Instance],
    chosen: &[Chosen<'_>],
    choose: &Choose<'_>,
) -> BTreeSet<NodeId> {
    let can = |(instance, chosen): (&Instance, &Chosen<'_>)| {
        let takes = |packed| {
            chosen.as_ref().is_some_and(|(variant, config, rows)| {
                let packed = Packed { state: instance.packed.state, ..packed };
                let instance = Instance { packed, rows: *rows, ..instance.clone() };
                variant.is_legal(&instance, config, choose.limits).is_ok()
            })
        };
        let neither = Packed::default();
        Packed { x: takes(Packed { x: true, ..neither }), y: takes(Packed { y: true, ..neither }), ..neither }
    };
    let can: Vec<Packed> = instances.iter().zip(chosen).map(can).collect();
    let shards: HashMap<NodeId, &Vec<usize>> = ops.iter().map(|(id, shards)| (*id, shards)).collect();
    let all = |id: &NodeId, can_do: &dyn Fn(Packed) -> bool| {
        shards.get(id).is_none_or(|shards| shards.iter().all(|instance| can_do(can[*instance])))
    };
    let is_packed = |id: &NodeId| {
        let readers = graph.readers(*id);
        let is_whole = |used: &Use| used.plane.is_none() || graph.op(*id).shape.planes == 1;
        let reads_x =
            |(reader, used): &(NodeId, Use)| used.operand == "x" && is_whole(used) && all(reader, &|packed| packed.x);
        graph.output() != Some(*id) && !readers.is_empty() && readers.iter().all(reads_x) && all(id, &|packed| packed.y)
    };
    ops.iter().map(|(id, _)| *id).filter(is_packed).collect()
}

/// What of an op is packed: of its values those that are among the packed ones, and its state if the plan stores it so.
pub(super) fn packed_of(graph: &Graph, id: NodeId, packed: &BTreeSet<NodeId>, state: StateFormat) -> Packed {
    let x = graph.input(id, "x").is_some_and(|input| packed.contains(&input.node));
    let state = state == StateFormat::F16 && graph.op(id).op.updates_wkv();
    Packed { x, y: packed.contains(&id), state }
}

#[cfg(test)]
mod tests {
    use crate::schedule::{Bound, Choose, Recording, Tensors, record};
    use std::collections::{BTreeMap, BTreeSet};
    use wgoose_graph::{BatchShape, Format, Graph, LoraRanks, ModelShape, Target, WeightClass, rewrite, rwkv7};
    use wgoose_kernels::{Catalogue, DeviceFingerprint, Feature, Limits, Plan, Precision};

    const SHAPE: ModelShape = ModelShape {
        layers: 3,
        width: 256,
        ffn: 1024,
        head_size: 64,
        vocab: 300,
        ranks: LoraRanks { decay: 32, iclr: 32, value: 32, gate: 64 },
    };

    /// What a device with matrix units records without a plan, in a class of precision.
    fn recorded(tokens: u32, precision: Precision) -> (Graph, Recording) {
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
        let catalogue = Catalogue::embedded();
        let plan = Plan::default_for(device, SHAPE, &limits).at_most(precision, &catalogue);
        let mut graph = rwkv7::forward_to(&SHAPE, Target::Logits).unwrap();
        rewrite::apply(&mut graph, &plan.fusions.prefill).unwrap();
        let tensors = Tensors {
            format: &|weight| if weight.class() == WeightClass::Matrix { Format::F16 } else { Format::F32 },
            shards: &|weight| Ok(std::iter::once(0..weight.shape(&SHAPE)[0]).collect()),
        };
        let choose = Choose { plan: &plan, like_rows: None, limits: &limits, catalogue: &catalogue };
        let recording = record(&graph, &BatchShape { tokens, segments: 1, outputs: 1 }, &tensors, &choose).unwrap();
        (graph, recording)
    }

    #[test]
    fn what_only_products_read_is_packed() {
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
            let of_op = |dispatch: &&crate::schedule::Dispatch| graph.op(dispatch.node).op.name() == name;
            let dispatch = recording.dispatches.iter().find(of_op).unwrap();
            let bound = |(_, bound): &(u32, Bound)| matches!(bound, Bound::Slot { size, .. } if *size == 100 * 256 * 2);
            assert!(dispatch.bindings.iter().any(bound), "{name}: {:?}", dispatch.bindings);
        }
    }

    #[test]
    fn what_is_computed_in_f32_is_not_packed() {
        assert!(recorded(100, Precision::F32).1.packed.is_empty());
        assert!(recorded(1, Precision::F16).1.packed.is_empty());
    }

    #[test]
    fn f32_products_take_the_matrix_units_where_weights_are_f16() {
        let (graph, recording) = recorded(100, Precision::F32);
        let key = |dispatch: &&crate::schedule::Dispatch| graph.op(dispatch.node).role == "att.key";
        let dispatch = recording.dispatches.iter().find(key).unwrap();
        assert!(recording.kernels[dispatch.kernel].label.contains("halves=two"), "{recording}");
    }
}
