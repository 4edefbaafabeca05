//! From r, k, v and the adapters' values to the gated heads, up to seven ops -> `time_mix_core`: the heads are
//! independent, so that one workgroup can take one from end to end.

use super::{Refusal, operand, producer, read_by};
use crate::{Graph, Input, Node, NodeId, Op};

pub(super) fn anchor(graph: &Graph, id: NodeId) -> bool {
    graph.op(id).op == Op::Mul
}

/// What the ops of a core read from outside, by operand, and what they have for attributes.
pub(super) struct Core {
    pub(super) inputs: Vec<(&'static str, Input)>,
    pub(super) eps: f32,
    pub(super) value: bool,
}

pub(super) fn fuse(graph: &mut Graph, gated: NodeId) -> Result<(), Refusal> {
    let Core { inputs, eps, value } = core_behind(graph, gated)?;
    let fused = graph.insert_at(gated, Op::TimeMixCore { eps, value }, "att.core", &inputs)?;
    graph.take_over(fused, &[(gated, None)]);
    Ok(())
}

/// The core that ends in the product `gated`: ops whose values nothing outside it reads.
pub(super) fn core_behind(graph: &Graph, gated: NodeId) -> Result<Core, Refusal> {
    let bonus = producer(graph, gated, "a", "bonus")?;
    let norm = producer(graph, bonus, "x", "group_norm")?;
    let wkv = producer(graph, norm, "x", "wkv")?;
    let update = producer(graph, wkv, "k", "key_update")?;
    let removal = producer(graph, wkv, "kk", "removal_key")?;
    let inside = [(bonus, 1), (norm, 1), (wkv, 1), (update, 2), (removal, 1)];
    inside.into_iter().try_for_each(|(id, readers)| read_by(graph, id, readers))?;
    for ((one, its), (other, theirs)) in [
        ((wkv, "r"), (bonus, "r")),
        ((wkv, "k"), (bonus, "k")),
        ((wkv, "v"), (bonus, "v")),
        ((wkv, "a"), (update, "a")),
        ((update, "k"), (removal, "k")),
    ] {
        if operand(graph, one, its)? != operand(graph, other, theirs)? {
            let names = [one, other].map(|id| graph.op(id).op.name());
            return Err(Refusal::CheckFailed(format!("{} and {} read different '{its}'", names[0], names[1])));
        }
    }
    let Op::GroupNorm { eps } = graph.op(norm).op else {
        return Err(Refusal::NoMatch { operand: "x", expected: "group_norm" });
    };

    let v = operand(graph, wkv, "v")?;
    let residual = residual_behind(graph, v)?;
    let mut inputs = match residual {
        Some(id) => ["v", "v_first", "gate"]
            .into_iter()
            .map(|name| Ok((name, operand(graph, id, name)?)))
            .collect::<Result<Vec<_>, Refusal>>()?,
        None => vec![("v", v)],
    };
    inputs.push(("g", operand(graph, gated, "b")?));
    for (op, names) in [
        (wkv, &["r", "decay", "a", "state", "segments"][..]),
        (update, &["k", "k_a"]),
        (removal, &["k_k"]),
        (norm, &["scale", "bias"]),
        (bonus, &["r_k"]),
    ] {
        for name in names {
            inputs.push((name, operand(graph, op, name)?));
        }
    }
    Ok(Core { inputs, eps, value: residual.is_some() })
}

/// The value residual that makes `v`, if one does; it must be read within the pattern only.
fn residual_behind(graph: &Graph, v: Input) -> Result<Option<NodeId>, Refusal> {
    match graph.node(v.node) {
        Node::Op(made) if made.op == Op::ValueResidual => read_by(graph, v.node, 2).map(|()| Some(v.node)),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fusion, FusionSet, ModelShape, rewrite, rwkv7};

    #[test]
    fn an_inner_value_that_is_read_elsewhere_is_refused() {
        let mut graph = rwkv7::forward(&ModelShape::preset("0.1B").unwrap()).unwrap();
        let gated = graph.op_ids().find(|id| graph.op(*id).op == Op::Mul).unwrap();
        let bonus = graph.input(gated, "a").unwrap();
        graph.rewire(bonus.node, "k", graph.input(bonus.node, "r").unwrap());
        let report = rewrite::apply(&mut graph, &FusionSet::from([Fusion::TimeMixCore])).unwrap().pop().unwrap();
        assert_eq!((report.applied, report.refused.len()), (11, 1));
        assert_eq!(report.refused[0].2, Refusal::Shared { role: "att.key_update", readers: 1 });
    }
}
