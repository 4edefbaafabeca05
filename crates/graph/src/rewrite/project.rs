//! The matrices r, k, v and `lora_down`, which all read the mixed inputs -> `project`: four independent ops in one.

use super::{Refusal, operand, product_of};
use crate::{Graph, Input, LayerWeight, NodeId, Op, Weight};

/// Operand and matrix of each product, the plane of the mixed inputs that it reads; its own plane is its place here.
const PRODUCTS: [(&str, LayerWeight, u32); 3] =
    [("w_r", LayerWeight::Receptance, 0), ("w_k", LayerWeight::Key, 2), ("w_v", LayerWeight::Value, 3)];

/// Plane of the adapters' hidden values.
const HIDDEN: u32 = 3;

pub(super) fn anchor(graph: &Graph, id: NodeId) -> bool {
    matches!(graph.op(id).op, Op::LoraDown { .. })
}

pub(super) fn fuse(graph: &mut Graph, down: NodeId) -> Result<(), Refusal> {
    let (Op::LoraDown { value }, Some(layer)) = (graph.op(down).op, graph.op(down).layer) else {
        return Err(Refusal::NoMatch { operand: "x", expected: "lora_down" });
    };
    let mixed = operand(graph, down, "x")?;
    let mut inputs = vec![("x", mixed)];
    let mut old = vec![(down, Some(HIDDEN))];
    for (plane, (name, matrix, reads)) in (0..).zip(PRODUCTS) {
        let product = product_of(graph, Weight::Layer(layer, matrix))?;
        if operand(graph, product, "x")? != (Input { node: mixed.node, plane: Some(reads) }) {
            return Err(Refusal::CheckFailed(format!("{name} does not read plane {reads} of the mixed inputs")));
        }
        inputs.push((name, operand(graph, product, "w")?));
        old.push((product, Some(plane)));
    }
    for name in ["w1", "a1", "v1", "g1"] {
        if value || name != "v1" {
            inputs.push((name, operand(graph, down, name)?));
        }
    }
    let fused = graph.insert_at(down, Op::Project { value }, "att.projections", &inputs)?;
    graph.take_over(fused, &old);
    Ok(())
}
