//! `norm_shift` in the op that reads it -> `norm_project`, `norm_matmul`: one dispatch less to wait for. The normed row
//! comes out as an extra plane, from which `shift_store` takes the new state while the layer continues.

use super::{Refusal, operand, producer, read_by};
use crate::{Graph, Input, NodeId, Op};

/// Planes of the normed rows, behind those of the products.
const OF_PROJECT: u32 = 4;
const OF_MATMUL: u32 = 1;

pub(super) fn is_project(graph: &Graph, id: NodeId) -> bool {
    matches!(graph.op(id).op, Op::Project { .. })
}

/// Products of other values, or of one plane of several, are no places that could be fused.
pub(super) fn is_normed_matmul(graph: &Graph, id: NodeId) -> bool {
    let is_whole = graph.input(id, "x").is_some_and(|x| x.plane.is_none());
    matches!(graph.op(id).op, Op::Matmul { .. }) && is_whole && producer(graph, id, "x", "norm_shift").is_ok()
}

pub(super) fn fuse(graph: &mut Graph, product: NodeId) -> Result<(), Refusal> {
    let norm = producer(graph, product, "x", "norm_shift")?;
    read_by(graph, norm, 1)?;
    let Op::NormShift { eps, planes } = graph.op(norm).op else {
        return Err(Refusal::NoMatch { operand: "x", expected: "norm_shift" });
    };
    let (op, normed) = match (graph.op(product).op, planes) {
        (Op::Project { value }, 6) => (Op::NormProject { eps, value }, OF_PROJECT),
        (Op::Matmul { activation }, 1) => (Op::NormMatmul { eps, activation }, OF_MATMUL),
        (other, _) => {
            return Err(Refusal::CheckFailed(format!("{} does not read a norm of {planes} planes", other.name())));
        }
    };
    let mut inputs = Vec::new();
    for name in ["x", "scale", "bias", "mix", "state", "token_segments", "segments"] {
        inputs.push((name, operand(graph, norm, name)?));
    }
    let weights = graph.inputs(product).into_iter().filter(|(operand, _)| operand.name != "x");
    inputs.extend(weights.map(|(operand, input)| (operand.name, input)));
    let (role, norm_role) = (graph.op(product).role, graph.op(norm).role);
    let store = [("state", operand(graph, norm, "state")?), ("segments", operand(graph, norm, "segments")?)];

    let fused = graph.insert_at(product, op, role, &inputs)?;
    let row = Input { node: fused, plane: Some(normed) };
    graph.insert_at(product, Op::ShiftStore, norm_role, &[&[("x", row)], &store[..]].concat())?;
    // The products of a matmul are now one plane of two; those of `project` are read plane by plane already.
    graph.take_over(fused, &[(product, matches!(op, Op::NormMatmul { .. }).then_some(0))]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fusion, FusionSet, LoraRanks, ModelShape, Node, OperandKind, Source, State, legality, rewrite, rwkv7};

    fn graph(ffn: u32) -> Graph {
        let ranks = LoraRanks { decay: 8, iclr: 8, value: 8, gate: 16 };
        let shape = ModelShape {
            layers: 2,
            width: 64,
            ffn,
            head_size: 64,
            vocab: 100,
            ranks,
            deep_embed: None,
            embedding_norm: true,
            output_head: true,
        };
        rwkv7::forward(&shape).unwrap()
    }

    #[test]
    fn norms_are_fused_into_their_consumers_and_both_states_are_stored() {
        let mut graph = graph(256);
        let reports = rewrite::apply(&mut graph, &FusionSet::from(Fusion::ALL)).unwrap();
        for fusion in [Fusion::NormProject, Fusion::NormMatmul] {
            let report = reports.iter().find(|r| r.fusion == fusion).unwrap();
            assert_eq!((report.applied, report.refused.len()), (2, 0), "{report:?}");
        }
        let count = |name: &str| graph.op_ids().filter(|id| graph.op(*id).op.name() == name).count();
        assert_eq!(["norm_shift", "norm_project", "norm_matmul", "shift_store"].map(count), [0, 2, 2, 4]);
    }

    #[test]
    fn a_row_that_does_not_fit_behind_its_products_is_refused() {
        let mut graph = graph(32);
        let fusions = FusionSet::from([Fusion::NormShift, Fusion::NormMatmul]);
        let report = rewrite::apply(&mut graph, &fusions).unwrap().pop().unwrap();
        assert_eq!((report.applied, report.refused.len()), (0, 2));
        let Refusal::CheckFailed(why) = &report.refused[0].2 else { panic!("{report:?}") };
        assert!(why.contains("64 columns and does not fit in 32"), "{why}");
        assert_eq!(legality::check(&graph), Ok(()));
    }

    #[test]
    fn the_old_state_is_read_before_its_update() {
        let mut graph = graph(256);
        rewrite::apply(&mut graph, &FusionSet::from(Fusion::ALL)).unwrap();
        let ids: Vec<NodeId> = graph.schedule().unwrap();
        let at = |name: &str, state: State| {
            let reads = |id: &NodeId| match graph.input(*id, "state").map(|input| graph.node(input.node).clone()) {
                Some(Node::Source(source)) => source == Source::State(state),
                _ => false,
            };
            ids.iter().position(|id| graph.op(*id).op.name() == name && reads(id)).unwrap()
        };
        for layer in 0..2 {
            assert!(at("norm_project", State::AttShift(layer)) < at("shift_store", State::AttShift(layer)));
            assert!(at("norm_matmul", State::FfnShift(layer)) < at("shift_store", State::FfnShift(layer)));
        }
        // Even where no value leads from the one to the other.
        let store = ids.iter().copied().find(|id| graph.op(*id).op == Op::ShiftStore).unwrap();
        let x = graph.input(ids[1], "x").unwrap();
        graph.rewire(store, "x", x);
        let reader = graph.op_ids().find(|id| matches!(graph.op(*id).op, Op::NormProject { .. })).unwrap();
        let order = graph.schedule().unwrap();
        assert_eq!(graph.inputs(reader).iter().filter(|(o, _)| o.kind == OperandKind::OldState).count(), 1);
        let place = |wanted: NodeId| order.iter().position(|id| *id == wanted).unwrap();
        assert!(place(ids[2]) < place(store), "{graph}");
    }
}
