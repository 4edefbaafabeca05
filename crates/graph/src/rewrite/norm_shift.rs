//! `lerp(norm x, token_shift(norm x))` -> `norm_shift`: one dispatch instead of three, the normed row never stored.

use super::{Refusal, operand, producer, read_by};
use crate::{Graph, NodeId, Op};

pub(super) fn anchor(graph: &Graph, id: NodeId) -> bool {
    matches!(graph.op(id).op, Op::Lerp { .. })
}

pub(super) fn fuse(graph: &mut Graph, lerp: NodeId) -> Result<(), Refusal> {
    let norm = producer(graph, lerp, "x", "layer_norm")?;
    let shift = producer(graph, lerp, "dx", "token_shift")?;
    if producer(graph, shift, "x", "layer_norm")? != norm {
        return Err(Refusal::CheckFailed("the shift and the lerp read different rows".into()));
    }
    read_by(graph, norm, 2)?;
    read_by(graph, shift, 1)?;
    let (Op::Lerp { planes }, Op::LayerNorm { eps }) = (graph.op(lerp).op, graph.op(norm).op) else {
        return Err(Refusal::NoMatch { operand: "x", expected: "layer_norm" });
    };
    let inputs = [
        ("x", operand(graph, norm, "x")?),
        ("scale", operand(graph, norm, "scale")?),
        ("bias", operand(graph, norm, "bias")?),
        ("mix", operand(graph, lerp, "mix")?),
        ("state", operand(graph, shift, "state")?),
        ("token_segments", operand(graph, shift, "token_segments")?),
        ("segments", operand(graph, shift, "segments")?),
    ];
    let role = graph.op(lerp).role;
    let fused = graph.insert_at(lerp, Op::NormShift { eps, planes }, role, &inputs)?;
    graph.take_over(fused, &[(lerp, None)]);
    Ok(())
}
