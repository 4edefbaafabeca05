//! The legality of graphs: one table of rules, checked between passes. Later stages assume them.

use crate::{Graph, ModelShape, Node, NodeId, OperandKind, Source, State, Use};
use std::collections::BTreeMap;

/// A rule that a graph breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("illegal graph: {rule}: {detail}")]
pub struct Violation {
    /// The rule, as a sentence.
    pub rule: &'static str,
    /// Where it is broken, and how.
    pub detail: String,
}

type Rule = (&'static str, fn(&Graph) -> Result<(), String>);

/// The table.
const RULES: [Rule; 6] = [
    ("every op has each of its operands once and no other", operands_once),
    ("every operand gets the kind of thing it declares", operands_fit),
    ("every value has the shape its op infers", shapes_inferred),
    ("no op waits for itself", acyclic),
    ("every tensor of the state of a layer is updated by one op", state_updated_once),
    ("every value is read or is the output, unless its op is there for the state", nothing_dead),
];

/// Checks every rule.
///
/// # Errors
/// The first rule that is broken.
pub fn check(graph: &Graph) -> Result<(), Violation> {
    RULES.iter().try_for_each(|(rule, check)| check(graph).map_err(|detail| Violation { rule, detail }))
}

fn place(graph: &Graph, id: NodeId) -> String {
    let op = graph.op(id);
    match op.layer {
        Some(layer) => format!("{} ({}, layer {layer})", op.op.name(), op.role),
        None => format!("{} ({})", op.op.name(), op.role),
    }
}

fn operands_once(graph: &Graph) -> Result<(), String> {
    for id in graph.op_ids() {
        let mut want: Vec<_> = graph.op(id).op.operands().iter().map(|o| o.name).collect();
        let mut got = graph.connected(id);
        want.sort_unstable();
        got.sort_unstable();
        if want != got {
            return Err(format!("{} has {got:?}, expected {want:?}", place(graph, id)));
        }
    }
    Ok(())
}

fn operands_fit(graph: &Graph) -> Result<(), String> {
    for id in graph.op_ids() {
        for (operand, input) in graph.inputs(id) {
            if !graph.fits(input, operand.kind) {
                return Err(format!("{}: '{}' must be {:?}", place(graph, id), operand.name, operand.kind));
            }
        }
    }
    Ok(())
}

fn shapes_inferred(graph: &Graph) -> Result<(), String> {
    for id in graph.op_ids() {
        let op = graph.op(id);
        let shape = op
            .op
            .infer(graph.model(), &|name| graph.input_shape(graph.input(id, name)?))
            .map_err(|why| format!("{}: {why}", place(graph, id)))?;
        if shape != op.shape {
            return Err(format!("{} is declared {} but makes {shape}", place(graph, id), op.shape));
        }
    }
    Ok(())
}

fn acyclic(graph: &Graph) -> Result<(), String> {
    graph
        .schedule()
        .map(|_| ())
        .ok_or_else(|| "there is a cycle, or a value is overwritten before its last reader".into())
}

fn state_updated_once(graph: &Graph) -> Result<(), String> {
    // A pass that ends in a hidden state leaves the layers above it alone.
    let computed = ModelShape { layers: graph.depth(), ..*graph.model() };
    let mut updates: BTreeMap<State, usize> = State::all(&computed).map(|s| (s, 0)).collect();
    for (source, id) in graph.sources() {
        if let Source::State(state) = source {
            let overwrites = |(op, used): &(NodeId, Use)| graph.reads_as(*op, used, OperandKind::State);
            *updates.entry(state).or_default() += graph.readers(id).iter().filter(|r| overwrites(r)).count();
        }
    }
    match updates.into_iter().find(|(_, n)| *n != 1) {
        Some((state, n)) => Err(format!("{state} is updated by {n} ops")),
        None => Ok(()),
    }
}

fn nothing_dead(graph: &Graph) -> Result<(), String> {
    let Some(output) = graph.output() else { return Err("no output is declared".into()) };
    for id in graph.op_ids().filter(|id| *id != output) {
        if graph.readers(id).is_empty() != graph.op(id).op.only_updates_state() {
            return Err(format!("{} is never read", place(graph, id)));
        }
    }
    match graph.node(output) {
        Node::Op(_) => Ok(()),
        Node::Source(s) => Err(format!("the output is a source: {s}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Input, LayerWeight, ModelShape, Op, Weight, rwkv7};

    fn graph() -> Graph {
        rwkv7::forward(&ModelShape::preset("0.1B").unwrap()).unwrap()
    }

    fn find(graph: &Graph, role: &str, op: &str) -> NodeId {
        let found = |id: &NodeId| graph.op(*id).role == role && graph.op(*id).op.name() == op;
        graph.op_ids().find(found).unwrap()
    }

    #[test]
    fn the_model_is_legal() {
        assert_eq!(check(&graph()), Ok(()));
    }

    #[test]
    fn each_rule_can_be_broken() {
        let mut g = graph();
        let lerp = find(&g, "att.shift", "lerp");
        g.replace_op(lerp, Op::Lerp { planes: 5 });
        assert!(check(&g).unwrap_err().rule.contains("shape"));

        let mut g = graph();
        let key = find(&g, "att.key", "matmul");
        let scale = g.source(Source::Weight(Weight::Ln0Scale));
        g.rewire(key, "w", scale.into());
        assert!(check(&g).unwrap_err().rule.contains("kind of thing"));

        let mut g = graph();
        let key = find(&g, "att.key", "matmul");
        g.replace_op(key, Op::MatmulAdd);
        assert!(check(&g).unwrap_err().rule.contains("operands once"));

        let mut g = graph();
        let norm = find(&g, "att.ln_x", "group_norm");
        let after = g.readers(norm)[0].0;
        g.rewire(norm, "x", after.into());
        assert!(check(&g).unwrap_err().rule.contains("waits"), "{:?}", check(&g));

        let mut g = graph();
        let ids: Vec<_> = g.op_ids().filter(|id| g.op(*id).op == Op::Wkv).collect();
        let state = g.input(ids[0], "state").unwrap();
        g.rewire(ids[1], "state", state);
        assert!(check(&g).unwrap_err().rule.contains("state"));

        let mut g = graph();
        let gate = find(&g, "att.gated", "mul");
        let a = g.input(gate, "a").unwrap();
        g.rewire(gate, "b", a);
        assert!(check(&g).unwrap_err().rule.contains("read or is the output"));
    }

    #[test]
    fn a_missing_plane_is_refused() {
        let mut g = graph();
        let key = find(&g, "att.key", "matmul");
        let node = g.input(key, "x").unwrap().node;
        g.rewire(key, "x", Input { node, plane: Some(6) });
        assert!(check(&g).is_err());
        assert_eq!(LayerWeight::AttMix.shape(g.model())[0], 6);
    }
}
