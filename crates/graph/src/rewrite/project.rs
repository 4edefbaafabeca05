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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fusion, FusionSet, LoraRanks, ModelShape, legality, rewrite, rwkv7};

    /// The report on `project` for two layers of width 64, and the graph.
    fn projected(gate: u32) -> (Graph, rewrite::FusionReport) {
        let ranks = LoraRanks { decay: 16, iclr: 16, value: 8, gate };
        let shape = ModelShape {
            layers: 2,
            width: 64,
            ffn: 256,
            head_size: 64,
            vocab: 100,
            ranks,
            deep_embed: None,
            embedding_norm: true,
            output_head: true,
        };
        let mut graph = rwkv7::forward(&shape).unwrap();
        let fusions = FusionSet::from([Fusion::LoraGroup, Fusion::Project]);
        let report = rewrite::apply(&mut graph, &fusions).unwrap().pop().unwrap();
        (graph, report)
    }

    #[test]
    fn hidden_values_must_fit_in_a_plane() {
        let (_, report) = projected(24);
        assert_eq!((report.applied, report.refused.len()), (2, 0));
        // In layer 0 there is no adapter of the value residual, and still room.
        let (graph, report) = projected(32);
        assert_eq!(report.applied, 1);
        let (role, layer, Refusal::CheckFailed(why)) = &report.refused[0] else { panic!("{report:?}") };
        assert_eq!((*role, *layer), ("att.adapters", Some(1)));
        assert!(why.contains("72 hidden values"), "{why}");
        assert_eq!(legality::check(&graph), Ok(()));
    }

    #[test]
    fn unexpected_planes_are_refused() {
        let ranks = LoraRanks { decay: 8, iclr: 8, value: 8, gate: 8 };
        let shape = ModelShape {
            layers: 1,
            width: 64,
            ffn: 256,
            head_size: 64,
            vocab: 100,
            ranks,
            deep_embed: None,
            embedding_norm: true,
            output_head: true,
        };
        let mut graph = rwkv7::forward(&shape).unwrap();
        rewrite::apply(&mut graph, &FusionSet::from([Fusion::LoraGroup])).unwrap();
        let before = graph.to_string();
        let key = product_of(&graph, Weight::Layer(0, LayerWeight::Key)).unwrap();
        let mixed = operand(&graph, key, "x").unwrap();
        graph.rewire(key, "x", Input { plane: Some(1), ..mixed });
        let report = rewrite::apply(&mut graph, &FusionSet::from([Fusion::Project])).unwrap().pop().unwrap();
        assert_eq!((report.applied, report.refused.len()), (0, 1));
        graph.rewire(key, "x", mixed);
        assert_eq!(graph.to_string(), before, "a refusal changes nothing");
    }
}
