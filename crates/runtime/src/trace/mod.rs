//! Looking into a pass: what each op made, by name, and how far it is from the op's reference.

mod compare;
mod text;

pub use compare::{OpError, Place};
pub use text::{Comparison, Divergence};

use std::collections::HashMap;
use wgoose_graph::{BatchShape, Graph, NodeId};

/// What one op made in a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traced<'a> {
    /// Its name, of which its layer has no other: its role in the model, such as `att.key`; where several ops share a
    /// role also the op, and from the second of a kind on a number: `att.decay.matmul.2`.
    pub name: &'a str,
    /// The op.
    pub op: &'static str,
    /// Its layer, from 0; `None` before the first and behind the last.
    pub layer: Option<u32>,
    /// The pass, from 0: a long sequence takes several.
    pub pass: usize,
    /// Planes, rows, columns. Rows are the tokens of the pass, or its outputs or sequences at the end of the model.
    pub shape: [usize; 3],
    /// The values, row major, plane by plane; NaN where the op makes none.
    pub values: &'a [f32],
}

/// The names of a graph's ops, made when the first is asked for.
#[derive(Default)]
pub(crate) struct Names(HashMap<NodeId, String>);

impl Names {
    /// The name of an op; all that are asked of one `Names` are of one graph.
    pub(crate) fn of(&mut self, graph: &Graph, node: NodeId) -> &str {
        if self.0.is_empty() {
            self.0 = names(graph);
        }
        &self.0[&node]
    }

    /// What an op of the graph made in a batch.
    pub(crate) fn traced<'a>(
        &'a mut self,
        graph: &Graph,
        node: NodeId,
        batch: &BatchShape,
        values: &'a [f32],
    ) -> Traced<'a> {
        let op = graph.op(node);
        let shape = [op.shape.planes, batch.rows(op.shape.rows), op.shape.cols].map(|n| n as usize);
        Traced { op: op.op.name(), layer: op.layer, pass: 0, shape, values, name: self.of(graph, node) }
    }
}

fn names(graph: &Graph) -> HashMap<NodeId, String> {
    let order = graph.schedule().unwrap_or_default();
    let mut of_role: HashMap<_, usize> = HashMap::new();
    for id in &order {
        *of_role.entry((graph.op(*id).layer, graph.op(*id).role)).or_default() += 1;
    }
    let mut of_name: HashMap<_, usize> = HashMap::new();
    let name = |id: NodeId| {
        let op = graph.op(id);
        let name = match of_role[&(op.layer, op.role)] {
            1 => op.role.to_owned(),
            _ => format!("{}.{}", op.role, op.op.name()),
        };
        let number = of_name.entry((op.layer, name.clone())).or_default();
        *number += 1;
        (id, if *number == 1 { name } else { format!("{name}.{number}") })
    };
    order.iter().copied().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::names;
    use std::collections::BTreeSet;
    use wgoose_graph::{Fusion, FusionSet, LoraRanks, ModelShape, rewrite, rwkv7};

    #[test]
    fn trace_names_are_distinct_and_roles_where_possible() {
        let ranks = LoraRanks { decay: 8, iclr: 8, value: 8, gate: 16 };
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
        for fusions in [FusionSet::default(), FusionSet::from(Fusion::ALL)] {
            let mut graph = rwkv7::forward(&shape).unwrap();
            rewrite::apply(&mut graph, &fusions).unwrap();
            let names = names(&graph);
            let distinct: BTreeSet<_> = names.iter().map(|(id, name)| (graph.op(*id).layer, name)).collect();
            assert_eq!(distinct.len(), graph.op_ids().count());
            let has = |layer: Option<u32>, name: &str| distinct.contains(&(layer, &name.to_owned()));
            assert!(has(Some(1), "att.output") && has(None, "head"));
            let unfused = fusions == FusionSet::default();
            assert_eq!(has(Some(0), "att.decay.matmul") && has(Some(0), "att.decay.matmul.2"), unfused);
        }
    }
}
