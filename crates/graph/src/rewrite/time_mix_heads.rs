//! `lora_up` + `time_mix_core` -> `time_mix_heads`: a head of the core reads its own rows of the adapters' second halves
//! only, so that the workgroup that takes the head can take them too.

use super::{Refusal, operand, producer, read_by};
use crate::{Graph, Input, NodeId, Op};

/// The operands that the adapters make, and their planes of `lora_up`'s value.
const MADE: [(&str, u32); 4] = [("decay", 0), ("a", 1), ("gate", 2), ("g", 3)];

pub(super) fn anchor(graph: &Graph, id: NodeId) -> bool {
    matches!(graph.op(id).op, Op::TimeMixCore { .. })
}

pub(super) fn fuse(graph: &mut Graph, core: NodeId) -> Result<(), Refusal> {
    let Op::TimeMixCore { eps, value } = graph.op(core).op else {
        return Err(Refusal::NoMatch { operand: "decay", expected: "lora_up" });
    };
    let up = producer(graph, core, "decay", "lora_up")?;
    if graph.op(up).op != (Op::LoraUp { value }) {
        return Err(Refusal::CheckFailed("the adapters and the heads differ in the value residual".into()));
    }
    let made = MADE.into_iter().filter(|(name, _)| value || *name != "gate");
    for (name, plane) in made.clone() {
        if operand(graph, core, name)? != (Input { node: up, plane: Some(plane) }) {
            return Err(Refusal::CheckFailed(format!("'{name}' is not plane {plane} of the adapters' values")));
        }
    }
    read_by(graph, up, made.clone().count())?;

    let op = Op::TimeMixHeads { eps, value };
    let of = |name| if graph.input(up, name).is_some() { up } else { core };
    let inputs = op.operands().iter().map(|o| Ok((o.name, operand(graph, of(o.name), o.name)?)));
    let inputs = inputs.collect::<Result<Vec<_>, Refusal>>()?;
    let fused = graph.insert_at(core, op, "att.heads", &inputs)?;
    graph.take_over(fused, &[(core, None)]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fusion, FusionSet, ModelShape, legality, rewrite, rwkv7};

    const BEFORE: [Fusion; 2] = [Fusion::LoraGroup, Fusion::TimeMixCore];

    fn heads_of(graph: &mut Graph) -> rewrite::FusionReport {
        rewrite::apply(graph, &FusionSet::from([Fusion::TimeMixHeads])).unwrap().pop().unwrap()
    }

    #[test]
    fn later_layers_still_read_the_first_values() {
        let mut graph = rwkv7::forward(&ModelShape::preset("0.1B").unwrap()).unwrap();
        rewrite::apply(&mut graph, &FusionSet::from(BEFORE)).unwrap();
        let report = heads_of(&mut graph);
        assert_eq!((report.applied, report.refused.len()), (12, 0));
        assert_eq!(legality::check(&graph), Ok(()));
        let heads: Vec<NodeId> =
            graph.schedule().unwrap().into_iter().filter(|id| graph.op(*id).role == "att.heads").collect();
        let first = graph.input(heads[0], "v").unwrap();
        assert!(heads[1..].iter().all(|id| graph.input(*id, "v_first") == Some(first)));
    }

    #[test]
    fn swapped_planes_are_refused() {
        let mut graph = rwkv7::forward(&ModelShape::preset("0.1B").unwrap()).unwrap();
        rewrite::apply(&mut graph, &FusionSet::from(BEFORE)).unwrap();
        let core = graph.op_ids().find(|id| anchor(&graph, *id)).unwrap();
        let (decay, a) = (graph.input(core, "decay").unwrap(), graph.input(core, "a").unwrap());
        graph.rewire(core, "decay", a);
        graph.rewire(core, "a", decay);
        let report = heads_of(&mut graph);
        assert_eq!((report.applied, report.refused.len()), (11, 1));
        assert!(matches!(report.refused[0].2, Refusal::CheckFailed(_)));
    }
}
