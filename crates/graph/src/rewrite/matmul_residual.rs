//! `add(residual, matmul)` -> `matmul_add`, which adds its sums to the residual in place.

use super::{Refusal, operand, producer, read_by};
use crate::{Activation, Graph, Node, NodeId, Op};

pub(super) fn anchor(graph: &Graph, id: NodeId) -> bool {
    graph.op(id).op == Op::Add
}

pub(super) fn fuse(graph: &mut Graph, add: NodeId) -> Result<(), Refusal> {
    let product = producer(graph, add, "b", "matmul")?;
    read_by(graph, product, 1)?;
    if graph.op(product).op != (Op::Matmul { activation: Activation::None }) {
        return Err(Refusal::CheckFailed("the product has an activation".into()));
    }
    let residual = operand(graph, add, "a")?;
    // A reader of what is written over comes before: one of a later layer would be computed out of its layer.
    if let Node::Op(made) = graph.node(residual.node)
        && graph.readers(residual.node).iter().any(|(reader, _)| graph.is_later(*reader, add))
    {
        return Err(Refusal::Shared { role: made.role, readers: graph.readers(residual.node).len() });
    }
    let inputs = [("x", operand(graph, product, "x")?), ("w", operand(graph, product, "w")?), ("residual", residual)];
    let role = graph.op(product).role;
    // The order of the addition, not of the product: every other reader of the residual comes first.
    let fused = graph.insert_at(add, Op::MatmulAdd, role, &inputs)?;
    graph.take_over(fused, &[(add, None)]);
    Ok(())
}
