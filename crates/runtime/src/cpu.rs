//! The CPU executor: interprets the graph with the ops' references. Slow, and the definition of right.

use crate::{Batch, Executor, PipelineCounts, RuntimeError, StateData};
use std::collections::HashMap;
use std::sync::Arc;
use wgoose_graph::{Graph, ModelShape, Node, NodeId, OperandKind, Source, State, Weight, arena, rwkv7};
use wgoose_kernels::{Arg, Args, Matrix, Site, ops};
use wgoose_loader::{Model, TensorView};

/// Interprets a graph on the CPU.
pub struct CpuExecutor {
    model: Arc<Model>,
    graph: Graph,
    slots: usize,
    states: HashMap<State, Vec<f32>>,
    vectors: HashMap<Weight, Vec<f32>>,
}

/// A mapped matrix, dequantised a row at a time.
struct Mapped<'a>(TensorView<'a>);

impl Matrix for Mapped<'_> {
    fn rows(&self) -> usize {
        self.0.rows()
    }

    fn cols(&self) -> usize {
        self.0.cols()
    }

    fn row(&self, i: usize, out: &mut [f32]) {
        self.0.row_f32(i, out);
    }
}

impl CpuExecutor {
    /// The unfused forward pass with `slots` sequences.
    ///
    /// # Errors
    /// The model's sizes make no graph.
    pub fn new(model: Arc<Model>, slots: usize) -> Result<Self, RuntimeError> {
        let graph = rwkv7::forward(model.shape())?;
        Self::with_graph(model, graph, slots)
    }

    /// As [`CpuExecutor::new`], for a graph that was rewritten or changed by hand.
    ///
    /// # Errors
    /// The graph is illegal.
    pub fn with_graph(model: Arc<Model>, graph: Graph, slots: usize) -> Result<Self, RuntimeError> {
        wgoose_graph::check(&graph)?;
        let shape = *model.shape();
        let states = State::all(&shape).map(|s| (s, vec![0.0; slots * s.len(&shape)])).collect();
        let vectors = graph
            .sources()
            .into_keys()
            .filter_map(|source| match source {
                Source::Weight(w) if w.class() == wgoose_graph::WeightClass::Vector => {
                    Some((w, model.tensor(w).to_f32()))
                }
                _ => None,
            })
            .collect();
        Ok(CpuExecutor { model, graph, slots, states, vectors })
    }
}

impl Executor for CpuExecutor {
    fn shape(&self) -> &ModelShape {
        self.model.shape()
    }

    fn slots(&self) -> usize {
        self.slots
    }

    fn run(&mut self, batch: &Batch) -> Result<Vec<f32>, RuntimeError> {
        let shape = batch.shape();
        let Some(arena) = arena(&self.graph, &shape) else { return Ok(Vec::new()) };
        let mut slots: Vec<Vec<f32>> = vec![Vec::new(); arena.slot_len.len()];
        for id in &arena.order {
            let node = self.graph.op(*id);
            let site = Site::of(&self.graph, *id, &shape, &|w| self.model.tensor(w).format());
            // An op never reads the slot it writes, but for what it writes over.
            let mut y = std::mem::take(&mut slots[arena.slot[id]]);
            y.resize(site.output_len(), f32::NAN);
            let inputs = self.graph.inputs(*id);
            let matrices: HashMap<&str, Mapped<'_>> = inputs
                .iter()
                .filter(|(operand, _)| operand.kind == OperandKind::Matrix)
                .filter_map(|(operand, input)| match self.graph.node(input.node) {
                    Node::Source(Source::Weight(w)) => Some((operand.name, Mapped(self.model.tensor(*w)))),
                    _ => None,
                })
                .collect();
            let updated = inputs.iter().find_map(|(_, input)| match self.graph.node(input.node) {
                Node::Source(Source::State(s)) => Some(*s),
                _ => None,
            });
            let mut state = updated.and_then(|s| self.states.remove(&s));
            let mut args = Args::new();
            for (operand, input) in inputs.iter().filter(|(o, _)| Some(o.name) != node.op.in_place()) {
                let value = |id: NodeId| &slots[arena.slot[&id]];
                match self.graph.node(input.node) {
                    Node::Op(made) => {
                        let plane = shape.rows(made.shape.rows) as usize * made.shape.cols as usize;
                        let all = value(input.node);
                        let data = input.plane.map_or(&all[..], |p| &all[p as usize * plane..][..plane]);
                        args.insert(operand.name, Arg::Floats(data));
                    }
                    Node::Source(Source::Weight(w)) => match matrices.get(operand.name) {
                        Some(matrix) => args.insert(operand.name, Arg::Matrix(matrix)),
                        None => args.insert(operand.name, Arg::Floats(&self.vectors[w])),
                    },
                    Node::Source(Source::State(_)) => {}
                    Node::Source(Source::Tokens) => args.insert(operand.name, Arg::Indices(&batch.tokens)),
                    Node::Source(Source::TokenSegments) => {
                        args.insert(operand.name, Arg::Indices(&batch.token_segments));
                    }
                    Node::Source(Source::Segments) => args.insert(operand.name, Arg::Indices(&batch.segments)),
                    Node::Source(Source::OutputRows) => args.insert(operand.name, Arg::Indices(&batch.outputs)),
                }
            }
            if let Some(state) = &mut state {
                args.insert("state", Arg::State(state));
            }
            (ops::kernels(&node.op).reference)(&site, &mut args, &mut y);
            drop(args);
            if let (Some(s), Some(data)) = (updated, state) {
                self.states.insert(s, data);
            }
            slots[arena.slot[id]] = y;
        }
        let output = self.graph.output().and_then(|id| arena.slot.get(&id));
        Ok(output.map(|slot| std::mem::take(&mut slots[*slot])).unwrap_or_default())
    }

    fn state(&mut self, slot: usize) -> Result<StateData, RuntimeError> {
        let shape = self.model.shape();
        let piece = |s: State| self.states[&s][slot * s.len(shape)..][..s.len(shape)].to_vec();
        Ok(StateData(State::all(shape).map(|s| (s, piece(s))).collect()))
    }

    fn set_state(&mut self, slot: usize, state: &StateData) -> Result<(), RuntimeError> {
        state.check(self.model.shape())?;
        for (piece, data) in &state.0 {
            if let Some(all) = self.states.get_mut(piece) {
                all[slot * data.len()..][..data.len()].copy_from_slice(data);
            }
        }
        Ok(())
    }

    fn max_outputs(&self) -> usize {
        usize::MAX
    }

    fn uploaded(&self) -> u64 {
        0
    }

    fn pipelines(&self) -> PipelineCounts {
        PipelineCounts::default()
    }
}
