//! The printable forms of a graph: one line an op in schedule order, and Graphviz.

use crate::{Activation, Graph, Node, NodeId, Op};
use std::collections::HashMap;
use std::fmt::{self, Write as _};

impl fmt::Display for Graph {
    /// `%4 layer_norm [T, 768] x=%3 scale=blocks.0.ln1.weight ... {eps=1e-5}  # att.shift`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(order) = self.schedule() else { return f.write_str("cyclic graph\n") };
        let number: HashMap<NodeId, usize> = order.iter().enumerate().map(|(i, id)| (*id, i)).collect();
        let mut layer = None;
        for id in &order {
            let node = self.op(*id);
            if node.layer != layer {
                layer = node.layer;
                match layer {
                    Some(i) => writeln!(f, "layer {i}:")?,
                    None => writeln!(f, "end:")?,
                }
            }
            write!(f, "  %{} {} {}", number[id], node.op.name(), node.shape)?;
            for (operand, input) in self.inputs(*id) {
                write!(f, " {}=", operand.name)?;
                match self.node(input.node) {
                    Node::Source(s) => write!(f, "{s}")?,
                    Node::Op(_) => write!(f, "%{}", number[&input.node])?,
                }
                if let Some(plane) = input.plane {
                    write!(f, ".{plane}")?;
                }
            }
            writeln!(f, "{}  # {}", attributes(&node.op), node.role)?;
        }
        Ok(())
    }
}

/// Attributes in braces, with a leading space; nothing where there are none.
fn attributes(op: &Op) -> String {
    match op {
        Op::LayerNorm { eps }
        | Op::GroupNorm { eps }
        | Op::NormShift { eps, .. }
        | Op::NormProject { eps, .. }
        | Op::TimeMixCore { eps, .. }
        | Op::TimeMixHeads { eps, .. }
        | Op::HeadOutput { eps, .. }
        | Op::NormMatmul { eps, activation: Activation::None } => format!(" {{eps={eps:e}}}"),
        Op::NormMatmul { eps, activation } => format!(" {{eps={eps:e} {}}}", activation.name()),
        Op::Matmul { activation: Activation::None } => String::new(),
        Op::Matmul { activation } | Op::Activate { activation } | Op::BiasActivate { activation } => {
            format!(" {{{}}}", activation.name())
        }
        _ => String::new(),
    }
}

/// Graphviz: `dot -Tsvg`. Ops are boxes, grouped by layer; weights are notes beside their reader.
pub fn dot(graph: &Graph) -> String {
    let mut out = String::from("digraph rwkv7 {\n  rankdir=TB; node [shape=box, fontname=\"monospace\"];\n");
    let order = graph.schedule().unwrap_or_default();
    let mut edges = String::new();
    let mut layer = None;
    for id in &order {
        let node = graph.op(*id);
        if node.layer != layer {
            if layer.is_some() {
                out.push_str("  }\n");
            }
            layer = node.layer;
            if let Some(i) = layer {
                let _ = writeln!(out, "  subgraph cluster_{i} {{ label=\"layer {i}\";");
            }
        }
        let mut weights = String::new();
        for (operand, input) in graph.inputs(*id) {
            match graph.node(input.node) {
                Node::Source(s) => {
                    let _ = write!(weights, "\\n{} = {s}", operand.name);
                }
                Node::Op(_) => {
                    let plane = input.plane.map(|p| format!(".{p}")).unwrap_or_default();
                    let (from, to) = (input.node.index(), id.index());
                    let _ = writeln!(edges, "  n{from} -> n{to} [label=\"{}{plane}\"];", operand.name);
                }
            }
        }
        let (op, shape) = (node.op.name(), node.shape);
        let _ =
            writeln!(out, "  n{} [label=\"{} {op} {shape}{}{weights}\"];", id.index(), node.role, attributes(&node.op));
    }
    if layer.is_some() {
        out.push_str("  }\n");
    }
    out + &edges + "}\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fusion, FusionSet, LoraRanks, ModelShape, rewrite, rwkv7};
    use expect_test::expect_file;

    fn tiny() -> Graph {
        let ranks = LoraRanks { decay: 8, iclr: 8, value: 8, gate: 16 };
        rwkv7::forward(&ModelShape {
            layers: 2,
            width: 64,
            ffn: 256,
            head_size: 64,
            vocab: 100,
            ranks,
            deep_embed: None,
            embedding_norm: true,
            output_head: true,
        })
        .unwrap()
    }

    #[test]
    fn unfused_text() {
        expect_file!["../snapshots/unfused.txt"].assert_eq(&tiny().to_string());
    }

    #[test]
    fn text_of_rwkv_7a() {
        let shape = ModelShape { layers: 1, deep_embed: Some(4), ..*tiny().model() };
        let mut graph = rwkv7::forward(&shape).unwrap();
        rewrite::apply(&mut graph, &FusionSet::from(Fusion::ALL)).unwrap();
        expect_file!["../snapshots/rwkv7a.txt"].assert_eq(&graph.to_string());
    }

    #[test]
    fn fused_text() {
        let mut graph = tiny();
        rewrite::apply(&mut graph, &FusionSet::from(Fusion::ALL)).unwrap();
        expect_file!["../snapshots/fused.txt"].assert_eq(&graph.to_string());
        assert_eq!(dot(&graph).matches("norm_matmul").count(), 2);
    }
}
