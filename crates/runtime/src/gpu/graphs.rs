//! The graphs that a plan runs: what is fused depends on how many tokens and sequences a pass has.

use crate::RuntimeError;
use crate::batch::PassShape;
use crate::timeline::{Timeline, Track};
use std::collections::HashMap;
use wgoose_graph::{BatchShape, FusionSet, Graph, ModelShape, Target, rewrite, rwkv7};
use wgoose_kernels::plan::Fusions;

/// The graphs of passes that end in logits.
pub struct Graphs {
    /// For one token of one sequence.
    pub(super) decode: Graph,
    /// For one token of each of several.
    batched: Graph,
    /// For all others.
    prefill: Graph,
    /// For passes that end in hidden states, made on first use.
    hidden: HashMap<Target, Graph>,
}

impl Graphs {
    /// Those that a plan with these fusions runs, each legal.
    ///
    /// # Errors
    /// The sizes make no graph, or a fusion leaves an illegal one.
    pub fn new(model: &ModelShape, fusions: &Fusions, timeline: &Timeline) -> Result<Self, RuntimeError> {
        let _span = timeline.span(Track::Schedule, "graphs");
        let graph = |fusions: &FusionSet| -> Result<Graph, RuntimeError> {
            let mut graph = rwkv7::forward(model)?;
            rewrite::apply(&mut graph, fusions)?;
            Ok(graph)
        };
        let several = || rayon::join(|| graph(&fusions.batched), || graph(&fusions.prefill));
        let (decode, (batched, prefill)) = rayon::join(|| graph(&fusions.decode), several);
        Ok(Graphs { decode: decode?, batched: batched?, prefill: prefill?, hidden: HashMap::new() })
    }

    /// The one for a pass; for a target other than logits it must have been made.
    pub(super) fn of_pass(&self, pass: &PassShape) -> &Graph {
        match pass.target {
            Target::Logits => self.of(&pass.batch),
            target => &self.hidden[&target],
        }
    }

    /// Makes the one for a target, if there is none yet.
    ///
    /// # Errors
    /// The model has no such layer.
    pub(super) fn make(&mut self, model: &ModelShape, target: Target, fusions: &Fusions) -> Result<(), RuntimeError> {
        if target != Target::Logits && !self.hidden.contains_key(&target) {
            let mut graph = rwkv7::forward_to(model, target)?;
            rewrite::apply(&mut graph, &fusions.prefill)?;
            self.hidden.insert(target, graph);
        }
        Ok(())
    }

    /// The one for a batch.
    pub fn of(&self, batch: &BatchShape) -> &Graph {
        match (batch.tokens, batch.segments) {
            (1, 1) => &self.decode,
            (tokens, segments) if tokens == segments => &self.batched,
            _ => &self.prefill,
        }
    }
}
