//! The adapters of a time mix, three or four independent chains of small products -> `lora_down` + `lora_up`.

use super::{Refusal, operand, product_of};
use crate::{Activation, Graph, Input, LayerWeight, NodeId, Op, Source, Weight};

/// One adapter: `end` is the op whose value the layer goes on with.
struct Adapter {
    x: Input,
    down: Input,
    up: Input,
    bias: Option<Input>,
    end: NodeId,
}

/// Planes of `lora_up`'s value.
const DECAY: u32 = 0;
const ICLR: u32 = 1;
const VALUE: u32 = 2;
const GATE: u32 = 3;

pub(super) fn anchor(graph: &Graph, id: NodeId) -> bool {
    graph.op(id).op == Op::BiasActivate { activation: Activation::Decay }
}

pub(super) fn fuse(graph: &mut Graph, decay: NodeId) -> Result<(), Refusal> {
    let Some(layer) = graph.op(decay).layer else {
        return Err(Refusal::CheckFailed("a decay outside every layer".into()));
    };
    use Activation::{Decay, None as Plain, Sigmoid, Tanh};
    use LayerWeight::*;
    let w = follow(graph, layer, DecayDown, Tanh, DecayUp, Some(Decay))?;
    let a = follow(graph, layer, IclrDown, Plain, IclrUp, Some(Sigmoid))?;
    let g = follow(graph, layer, GateDown, Sigmoid, GateUp, None)?;
    let has_value = graph.find_source(Source::Weight(Weight::Layer(layer, ValueDown))).is_some();
    let v = if has_value { Some(follow(graph, layer, ValueDown, Plain, ValueUp, Some(Sigmoid))?) } else { None };

    let mixed = w.x.node;
    let planes = [(&w, 1), (&a, 4), (&g, 5)].into_iter().chain(v.as_ref().map(|v| (v, 3)));
    for (adapter, plane) in planes {
        if adapter.x != (Input { node: mixed, plane: Some(plane) }) {
            return Err(Refusal::CheckFailed(format!("plane {plane} of the mixed inputs is read elsewhere")));
        }
    }

    let value = v.is_some();
    let mut down = vec![("x", mixed.into()), ("w1", w.down), ("a1", a.down), ("g1", g.down)];
    let mut up = vec![("w2", w.up), ("a2", a.up), ("g2", g.up)];
    up.extend([("w0", w.bias), ("a0", a.bias)].into_iter().filter_map(|(name, bias)| Some((name, bias?))));
    let mut ends = vec![(w.end, Some(DECAY)), (a.end, Some(ICLR)), (g.end, Some(GATE))];
    if let Some(v) = v {
        down.push(("v1", v.down));
        up.push(("v2", v.up));
        up.extend(v.bias.map(|bias| ("v0", bias)));
        ends.push((v.end, Some(VALUE)));
    }

    let hidden = graph.insert_at(decay, Op::LoraDown { value }, "att.adapters", &down)?;
    up.push(("x", hidden.into()));
    let planes = graph.insert_at(decay, Op::LoraUp { value }, "att.adapters", &up)?;
    graph.take_over(planes, &ends);
    Ok(())
}

/// Follows one adapter from its first matrix to the op whose value the layer goes on with.
fn follow(
    graph: &Graph,
    layer: u32,
    down: LayerWeight,
    activation: Activation,
    up: LayerWeight,
    biased: Option<Activation>,
) -> Result<Adapter, Refusal> {
    let first = product_of(graph, Weight::Layer(layer, down))?;
    let mut hidden = first;
    if activation != Activation::None {
        hidden = next(graph, hidden, Op::Activate { activation })?;
    }
    let second = next(graph, hidden, Op::Matmul { activation: Activation::None })?;
    if second != product_of(graph, Weight::Layer(layer, up))? {
        return Err(Refusal::NoMatch { operand: "w", expected: "the adapter's second matrix" });
    }
    let end = match biased {
        Some(activation) => next(graph, second, Op::BiasActivate { activation })?,
        None => second,
    };
    Ok(Adapter {
        x: operand(graph, first, "x")?,
        down: operand(graph, first, "w")?,
        up: operand(graph, second, "w")?,
        bias: graph.input(end, "bias"),
        end,
    })
}

/// The only reader of `id`, which must be `op`.
fn next(graph: &Graph, id: NodeId, op: Op) -> Result<NodeId, Refusal> {
    match graph.readers(id)[..] {
        [(reader, _)] if graph.op(reader).op == op => Ok(reader),
        [_] => Err(Refusal::NoMatch { operand: "x", expected: op.name() }),
        ref readers => Err(Refusal::Shared { role: graph.op(id).role, readers: readers.len() }),
    }
}
