//! From r, k, v and the adapters' values to the gated heads, up to seven ops -> `wkv_heads` + `head_output`: only the
//! recurrence needs its tokens one after another, so that its kernel does nothing else and the rest spreads over the tokens.
//! Value residual and key update are for both: each op makes them for itself, which costs less than to write and read them.

use super::Refusal;
use super::time_mix_core::{Core, core_behind};
use crate::{Graph, Input, NodeId, Op};

pub(super) fn fuse(graph: &mut Graph, gated: NodeId) -> Result<(), Refusal> {
    let Core { inputs, eps, value } = core_behind(graph, gated)?;
    let of = |op: Op| inputs.iter().copied().filter(move |(name, _)| op.operands().iter().any(|o| o.name == *name));

    let recurrence = Op::WkvHeads { value };
    let heads = graph.insert_at(gated, recurrence, "att.wkv", &of(recurrence).collect::<Vec<_>>())?;
    let rest = Op::HeadOutput { eps, value };
    let x = ("x", Input { node: heads, plane: None });
    let output = graph.insert_at(gated, rest, "att.gated", &of(rest).chain([x]).collect::<Vec<_>>())?;
    graph.take_over(output, &[(gated, None)]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{Fusion, FusionSet, ModelShape, Op, legality, rewrite, rwkv7};

    fn reports(fusions: &[Fusion]) -> (crate::Graph, Vec<rewrite::FusionReport>) {
        let mut graph = rwkv7::forward(&ModelShape::preset("0.1B").unwrap()).unwrap();
        let set: FusionSet = fusions.iter().copied().collect();
        let reports = rewrite::apply(&mut graph, &set).unwrap();
        (graph, reports)
    }

    #[test]
    fn two_ops_replace_seven() {
        let (graph, reports) = reports(&[Fusion::TimeMixSplit]);
        assert_eq!((reports[0].applied, reports[0].refused.len()), (12, 0));
        assert_eq!(legality::check(&graph), Ok(()));
        let count = |name: &str| graph.op_ids().filter(|id| graph.op(*id).op.name() == name).count();
        assert_eq!((count("wkv_heads"), count("head_output")), (12, 12));
        for inside in ["value_residual", "removal_key", "key_update", "wkv", "group_norm", "bonus", "mul"] {
            assert_eq!(count(inside), 0, "{inside}");
        }
        let first = graph.op_ids().filter(|id| graph.op(*id).op == Op::WkvHeads { value: false });
        assert_eq!(first.map(|id| graph.op(id).layer).collect::<Vec<_>>(), [Some(0)]);
    }

    #[test]
    fn the_time_mix_core_leaves_the_split_nothing_to_fuse() {
        let (_, reports) = reports(&[Fusion::TimeMixCore, Fusion::TimeMixSplit]);
        assert_eq!((reports[0].applied, reports[1].applied, reports[1].refused.len()), (12, 0, 0));
        assert_eq!(Fusion::TimeMixSplit.instead_of(), Some(reports[0].fusion));
    }
}
