//! RWKV-7, the whole model on one page; `deep_embed` has what RWKV-7a adds. Formulas: BlinkDL/RWKV-LM `RWKV-v7/`;
//! symbols as in its paper.

mod deep_embed;

use crate::LayerWeight::{self as L, *};
use crate::{Activation, Graph, GraphError, Input, Level, ModelShape, NodeId, Op, Source, State, Target, Weight};

/// Added to the variance of every layer norm.
const LAYER_NORM_EPS: f32 = 1e-5;

/// Added to the variance of the per-head norm: head size * 1e-5 (64e-5 in every published model).
fn group_norm_eps(shape: &ModelShape) -> f32 {
    shape.head_size as f32 * 1e-5
}

/// The unfused forward pass: tokens and state in, logits of the requested rows and new state out; of a model without an
/// output head, hidden states in place of logits.
///
/// # Errors
/// Only if the shape is no model ([`ModelShape::validate`]).
pub fn forward(shape: &ModelShape) -> Result<Graph, GraphError> {
    forward_to(shape, if shape.output_head { Target::Logits } else { Target::Hidden(Level::Final) })
}

/// The unfused forward pass up to a target. Layers above it have no op, and their state stays as it is.
///
/// # Errors
/// The shape is no model, or the target is a layer or an output head that it does not have.
pub fn forward_to(shape: &ModelShape, target: Target) -> Result<Graph, GraphError> {
    if target == Target::Logits && !shape.output_head {
        let why = "the model has no output head".to_owned();
        return Err(GraphError {
            op: Op::Matmul { activation: Activation::None }.name(),
            role: "head",
            layer: None,
            why,
        });
    }
    let depth = target.depth(shape);
    if depth > shape.layers {
        let why = format!("the model has {} layers, numbered from 0", shape.layers);
        return Err(GraphError { op: Op::SelectRows.name(), role: "select", layer: Some(depth - 1), why });
    }
    let mut b = Builder { graph: Graph::new(*shape), layer: None };
    let tokens = b.graph.source(Source::Tokens);
    let table = b.weight(Weight::Embedding);
    let mut embedding = b.op(Op::Embed, "embed", &[("tokens", tokens.into()), ("table", table)])?;
    if shape.embedding_norm {
        embedding = b.norm("ln0", embedding, Weight::Ln0Scale, Weight::Ln0Bias)?;
    }

    let mut x = embedding;
    let mut v_first = None;
    for layer in 0..depth {
        b.layer = Some(layer);
        let mixed = b.time_mix(x, &mut v_first)?;
        x = b.op(Op::Add, "att.residual", &[("a", x.into()), ("b", mixed.into())])?;
        let mixed = b.channel_mix(x, embedding)?;
        x = b.op(Op::Add, "ffn.residual", &[("a", x.into()), ("b", mixed.into())])?;
    }

    b.layer = None;
    let output = match target {
        Target::Logits => {
            let x = b.select(x)?;
            let x = b.level(x, Level::Final)?;
            let head = b.weight(Weight::Head);
            b.op(Op::Matmul { activation: Activation::None }, "head", &[("x", x.into()), ("w", head)])?
        }
        Target::Hidden(level) => {
            let x = b.select(x)?;
            b.level(x, level)?
        }
        Target::HiddenSum(level) => {
            let x = b.level(x, level)?;
            let segments = b.graph.source(Source::Segments);
            b.op(Op::SumRows, "sum", &[("x", x.into()), ("segments", segments.into())])?
        }
    };
    b.graph.set_output(output);
    Ok(b.graph)
}

struct Builder {
    graph: Graph,
    layer: Option<u32>,
}

impl Builder {
    fn select(&mut self, x: NodeId) -> Result<NodeId, GraphError> {
        let rows = self.graph.source(Source::OutputRows);
        self.op(Op::SelectRows, "select", &[("x", x.into()), ("rows", rows.into())])
    }

    /// What stands at a level, given the residual stream there.
    fn level(&mut self, x: NodeId, level: Level) -> Result<NodeId, GraphError> {
        match level {
            Level::Final => self.norm("ln_out", x, Weight::LnOutScale, Weight::LnOutBias),
            Level::Layer(_) => Ok(x),
        }
    }

    fn time_mix(&mut self, x: NodeId, v_first: &mut Option<NodeId>) -> Result<NodeId, GraphError> {
        let layer = self.layer.unwrap_or(0);
        let eps = group_norm_eps(self.graph.model());
        let normed = self.layer_norm("att.shift", x, [Ln1Scale, Ln1Bias])?;
        let mixed = self.shifted("att.shift", normed, State::AttShift(layer), AttMix, 6)?;
        let [xr, xw, xk, xv, xa, xg] = [0, 1, 2, 3, 4, 5].map(|p| Input { node: mixed, plane: Some(p) });

        let r = self.matmul("att.receptance", xr, Receptance)?;
        let k = self.matmul("att.key", xk, Key)?;
        let v = self.matmul("att.value", xv, Value)?;

        let w = self.adapter("att.decay", xw, DecayDown, Activation::Tanh, DecayUp)?;
        let decay = self.biased("att.decay", w, DecayBias, Activation::Decay)?;
        let a = self.adapter("att.iclr", xa, IclrDown, Activation::None, IclrUp)?;
        let a = self.biased("att.iclr", a, IclrBias, Activation::Sigmoid)?;
        let g = self.adapter("att.gate", xg, GateDown, Activation::Sigmoid, GateUp)?;

        let v = match *v_first {
            None => *v_first.insert(v),
            Some(first) => {
                let gate = self.adapter("att.value_gate", xv, ValueDown, Activation::None, ValueUp)?;
                let gate = self.biased("att.value_gate", gate, ValueBias, Activation::Sigmoid)?;
                let inputs = [("v", v.into()), ("v_first", first.into()), ("gate", gate.into())];
                self.op(Op::ValueResidual, "att.value_residual", &inputs)?
            }
        };

        let k_k = self.layer_weight(RemovalKey);
        let kk = self.op(Op::RemovalKey, "att.removal_key", &[("k", k.into()), ("k_k", k_k)])?;
        let k_a = self.layer_weight(KeyIclr);
        let k = self.op(Op::KeyUpdate, "att.key_update", &[("k", k.into()), ("a", a.into()), ("k_a", k_a)])?;

        let state = self.graph.source(Source::State(State::Wkv(layer))).into();
        let segments = self.graph.source(Source::Segments).into();
        let heads = [("r", r), ("decay", decay), ("k", k), ("v", v), ("kk", kk), ("a", a)];
        let heads = heads.map(|(name, node)| (name, Input::from(node)));
        let y = self.op(Op::Wkv, "att.wkv", &[&heads[..], &[("state", state), ("segments", segments)]].concat())?;

        let (scale, bias) = (self.layer_weight(LnXScale), self.layer_weight(LnXBias));
        let y = self.op(Op::GroupNorm { eps }, "att.ln_x", &[("x", y.into()), ("scale", scale), ("bias", bias)])?;
        let r_k = self.layer_weight(Bonus);
        let inputs = [("x", y.into()), ("r", r.into()), ("k", k.into()), ("v", v.into()), ("r_k", r_k)];
        let y = self.op(Op::Bonus, "att.bonus", &inputs)?;
        let y = self.op(Op::Mul, "att.gated", &[("a", y.into()), ("b", g.into())])?;
        self.matmul("att.output", y.into(), Output)
    }

    /// `embedding` is the tokens' embedding after its norm.
    fn channel_mix(&mut self, x: NodeId, embedding: NodeId) -> Result<NodeId, GraphError> {
        let layer = self.layer.unwrap_or(0);
        let normed = self.layer_norm("ffn.shift", x, [Ln2Scale, Ln2Bias])?;
        let xk = self.shifted("ffn.shift", normed, State::FfnShift(layer), FfnMix, 1)?;
        let k = self.matmul("ffn.key", xk.into(), FfnKey)?;
        let mut k = self.op(Op::Activate { activation: Activation::ReluSquared }, "ffn.relu2", &[("x", k.into())])?;
        if self.graph.model().deep_embed.is_some() {
            let gain = self.deep_embed_gain(normed, embedding)?;
            k = self.op(Op::Mul, "ffn.deep_embed", &[("a", k.into()), ("b", gain.into())])?;
        }
        self.matmul("ffn.value", k.into(), FfnValue)
    }

    /// Token shift and lerps.
    fn shifted(
        &mut self,
        role: &'static str,
        x: NodeId,
        state: State,
        mix: L,
        planes: u32,
    ) -> Result<NodeId, GraphError> {
        let x = x.into();
        let state = self.graph.source(Source::State(state)).into();
        let token_segments = self.graph.source(Source::TokenSegments).into();
        let segments = self.graph.source(Source::Segments).into();
        let shift = [("x", x), ("state", state), ("token_segments", token_segments), ("segments", segments)];
        let dx = self.op(Op::TokenShift, role, &shift)?;
        let mix = self.layer_weight(mix);
        self.op(Op::Lerp { planes }, role, &[("x", x), ("dx", dx.into()), ("mix", mix)])
    }

    fn layer_norm(&mut self, role: &'static str, x: NodeId, [scale, bias]: [L; 2]) -> Result<NodeId, GraphError> {
        let scale = self.of_layer(scale);
        let bias = self.of_layer(bias);
        self.norm(role, x, scale, bias)
    }

    fn norm(&mut self, role: &'static str, x: NodeId, scale: Weight, bias: Weight) -> Result<NodeId, GraphError> {
        let (scale, bias) = (self.weight(scale), self.weight(bias));
        self.op(Op::LayerNorm { eps: LAYER_NORM_EPS }, role, &[("x", x.into()), ("scale", scale), ("bias", bias)])
    }

    /// `up(activation(down x))`
    fn adapter(
        &mut self,
        role: &'static str,
        x: Input,
        down: L,
        activation: Activation,
        up: L,
    ) -> Result<NodeId, GraphError> {
        let mut hidden = self.matmul(role, x, down)?;
        if activation != Activation::None {
            hidden = self.op(Op::Activate { activation }, role, &[("x", hidden.into())])?;
        }
        self.matmul(role, hidden.into(), up)
    }

    fn biased(&mut self, role: &'static str, x: NodeId, bias: L, activation: Activation) -> Result<NodeId, GraphError> {
        let bias = self.layer_weight(bias);
        self.op(Op::BiasActivate { activation }, role, &[("x", x.into()), ("bias", bias)])
    }

    fn matmul(&mut self, role: &'static str, x: Input, w: L) -> Result<NodeId, GraphError> {
        let w = self.layer_weight(w);
        self.op(Op::Matmul { activation: Activation::None }, role, &[("x", x), ("w", w)])
    }

    fn op(&mut self, op: Op, role: &'static str, inputs: &[(&'static str, Input)]) -> Result<NodeId, GraphError> {
        self.graph.push(op, self.layer, role, inputs)
    }

    fn of_layer(&self, weight: L) -> Weight {
        Weight::Layer(self.layer.unwrap_or(0), weight)
    }

    fn layer_weight(&mut self, weight: L) -> Input {
        self.weight(self.of_layer(weight))
    }

    fn weight(&mut self, weight: Weight) -> Input {
        self.graph.source(Source::Weight(weight)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FusionSet, check, rewrite};

    #[test]
    fn a_hidden_state_needs_no_head_and_no_layer_above_it() {
        let shape = ModelShape { layers: 3, ..ModelShape::preset("0.1B").unwrap() };
        for fusions in [FusionSet::new(), FusionSet::from(crate::Fusion::ALL)] {
            for (level, layers) in [(Level::Final, 3), (Level::Layer(2), 3), (Level::Layer(1), 2), (Level::Layer(0), 1)]
            {
                for target in [Target::Hidden(level), Target::HiddenSum(level)] {
                    let mut graph = forward_to(&shape, target).unwrap();
                    rewrite::apply(&mut graph, &fusions).unwrap();
                    check(&graph).unwrap();
                    assert_eq!(graph.depth(), layers);
                    let weights = |w: &Source| matches!(w, Source::Weight(_));
                    let read: Vec<Source> = graph.sources().into_keys().filter(weights).collect();
                    let reads = |w| read.contains(&Source::Weight(w));
                    assert!(!reads(Weight::Head) && reads(Weight::LnOutScale) == (level == Level::Final));
                    for layer in 0..3 {
                        assert_eq!(reads(Weight::Layer(layer, Key)), layer < layers, "{target:?}, layer {layer}");
                    }
                }
            }
        }
        assert!(forward_to(&shape, Target::Hidden(Level::Layer(3))).unwrap_err().to_string().contains("3 layers"));
    }

    #[test]
    fn a_norm_that_is_folded_into_the_embedding_has_no_op() {
        let shape = ModelShape { layers: 2, ..ModelShape::preset("0.1B").unwrap() };
        let folded = ModelShape { embedding_norm: false, ..shape };
        for fusions in [FusionSet::new(), FusionSet::from(crate::Fusion::ALL)] {
            let [with, without] = [shape, folded].map(|shape| {
                let mut graph = forward(&shape).unwrap();
                rewrite::apply(&mut graph, &fusions).unwrap();
                check(&graph).unwrap();
                graph
            });
            assert_eq!(without.op_ids().count() + 1, with.op_ids().count());
            let reads = |weight| without.sources().contains_key(&Source::Weight(weight));
            assert!(reads(Weight::Embedding) && !reads(Weight::Ln0Scale) && !reads(Weight::Ln0Bias));
        }
        let all: Vec<Weight> = Weight::all(&shape).collect();
        let of_folded: Vec<Weight> = Weight::all(&folded).collect();
        assert_eq!(all.len(), of_folded.len() + 2);
        assert!(of_folded.iter().all(|weight| all.contains(weight)));
    }

    #[test]
    fn a_model_without_an_output_head_ends_in_hidden_states() {
        let shape = ModelShape { layers: 2, output_head: false, ..ModelShape::preset("0.1B").unwrap() };
        let graph = forward(&shape).unwrap();
        let output = graph.op(graph.output().unwrap());
        assert_eq!(output.shape.cols, shape.width);
        assert!(!graph.sources().contains_key(&Source::Weight(Weight::Head)));
        assert!(!Weight::all(&shape).any(|weight| weight == Weight::Head));
        assert!(forward_to(&shape, Target::Logits).unwrap_err().to_string().contains("no output head"));
    }
}
