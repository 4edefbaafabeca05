//! Which values are stored as packed f16: those that one kernel can write so and every reader rounds to f16 anyway, so that
//! storing them changes no bit of a result. Kernels are chosen first; what they can do decides.

use super::Choose;
use crate::RuntimeError;
use std::collections::{BTreeSet, HashMap};
use wgoose_graph::{Graph, NodeId, Use};
use wgoose_kernels::{Instance, Packed};

/// An op's dispatches, one a row shard: their instances by number.
pub(super) type Shards = (NodeId, Vec<usize>);

/// The values that are packed, of ops with these instances.
///
/// # Errors
/// A choice of the plan that there is not.
pub(super) fn packed_values(
    graph: &Graph,
    ops: &[Shards],
    instances: &[Instance],
    choose: &Choose<'_>,
) -> Result<BTreeSet<NodeId>, RuntimeError> {
    let mut can = Vec::with_capacity(instances.len());
    for instance in instances {
        let chosen = choose.first_admitted(instance)?;
        let takes = |packed| {
            let instance = choose.like(&Instance { packed, ..instance.clone() });
            chosen.as_ref().is_some_and(|(variant, config)| variant.is_legal(&instance, config, choose.limits).is_ok())
        };
        can.push(Packed { x: takes(Packed { x: true, y: false }), y: takes(Packed { x: false, y: true }) });
    }
    let shards: HashMap<NodeId, &Vec<usize>> = ops.iter().map(|(id, shards)| (*id, shards)).collect();
    let all = |id: &NodeId, can_do: &dyn Fn(Packed) -> bool| {
        shards.get(id).is_none_or(|shards| shards.iter().all(|instance| can_do(can[*instance])))
    };
    let is_packed = |id: &NodeId| {
        let readers = graph.readers(*id);
        let is_whole = |used: &Use| used.plane.is_none() || graph.op(*id).shape.planes == 1;
        let reads_x = |(reader, used): &(NodeId, Use)| {
            used.operand == "x" && is_whole(used) && all(reader, &|packed| packed.x)
        };
        graph.output() != Some(*id) && !readers.is_empty() && readers.iter().all(reads_x) && all(id, &|packed| packed.y)
    };
    Ok(ops.iter().map(|(id, _)| *id).filter(is_packed).collect())
}

/// Which of an op's values are among the packed ones.
pub(super) fn packed_of(graph: &Graph, id: NodeId, packed: &BTreeSet<NodeId>) -> Packed {
    let x = graph.input(id, "x").is_some_and(|input| packed.contains(&input.node));
    Packed { x, y: packed.contains(&id) }
}
