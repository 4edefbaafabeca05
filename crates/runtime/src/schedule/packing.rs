//! Which values are stored as packed f16: those that one kernel can write so and every reader rounds to f16 anyway, so that
//! storing them changes no bit of a result. Kernels are chosen first; what they can do decides.

use super::{Choose, Chosen, Tensors, instances};
use crate::RuntimeError;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use wgoose_graph::{BatchShape, Format, Graph, NodeId, Use, Weight};
use wgoose_kernels::{Catalogue, Instance, Limits, Packed, Plan, StateFormat};

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
        chosen.as_ref().map_or(Packed::default(), |(variant, config, rows)| {
            let packed = Packed { x: true, y: true, ..instance.packed };
            variant.takes(&Instance { packed, rows: *rows, ..instance.clone() }, config, choose.limits)
        })
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

/// What of each op of a pass is packed, by the kernels of a plan for whole matrices.
///
/// # Errors
/// A kernel's file is wrong.
pub fn packing(
    graph: &Graph,
    batch: &BatchShape,
    format: &dyn Fn(Weight) -> Format,
    (plan, limits, catalogue): (&Plan, &Limits, &Catalogue),
) -> Result<BTreeMap<NodeId, Packed>, RuntimeError> {
    let order: Vec<NodeId> = graph.op_ids().collect();
    let tensors =
        Tensors { format, shards: &|weight| Ok(std::iter::once(0..weight.shape(graph.model())[0]).collect()) };
    let choose = Choose { plan, like_rows: None, limits, catalogue };
    let (plain, ops) = instances(graph, &order, batch, &tensors, (&BTreeSet::new(), plan.state))?;
    let packed = packed_values(graph, &ops, &plain, &choose.first_admitted(&plain)?, &choose);
    Ok(order.into_iter().map(|id| (id, packed_of(graph, id, &packed, plan.state))).collect())
}

/// What of an op is packed: of its values those that are among the packed ones, and its state if the plan stores it so.
pub(super) fn packed_of(graph: &Graph, id: NodeId, packed: &BTreeSet<NodeId>, state: StateFormat) -> Packed {
    let x = graph.input(id, "x").is_some_and(|input| packed.contains(&input.node));
    let state = state == StateFormat::F16 && graph.op(id).op.updates_wkv();
    Packed { x, y: packed.contains(&id), state }
}
