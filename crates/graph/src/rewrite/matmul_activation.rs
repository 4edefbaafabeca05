//! `activate(matmul)` -> `matmul` with the activation applied as it stores.

use super::{Refusal, operand, producer, read_by};
use crate::{Activation, Graph, NodeId, Op};

pub(super) fn anchor(graph: &Graph, id: NodeId) -> bool {
    matches!(graph.op(id).op, Op::Activate { .. })
}

pub(super) fn fuse(graph: &mut Graph, activate: NodeId) -> Result<(), Refusal> {
    let product = producer(graph, activate, "x", "matmul")?;
    read_by(graph, product, 1)?;
    let (Op::Activate { activation }, Op::Matmul { activation: Activation::None }) =
        (graph.op(activate).op, graph.op(product).op)
    else {
        return Err(Refusal::CheckFailed("the product has an activation already".into()));
    };
    let inputs = [("x", operand(graph, product, "x")?), ("w", operand(graph, product, "w")?)];
    let role = graph.op(product).role;
    let fused = graph.insert_at(activate, Op::Matmul { activation }, role, &inputs)?;
    graph.take_over(fused, &[(activate, None)]);
    Ok(())
}
