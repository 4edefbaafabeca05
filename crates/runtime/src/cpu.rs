//! The CPU executor: interprets the graph with the ops' references. Slow, and the definition of right.

use crate::trace::Names;
use crate::{Batch, Executor, Footprint, LoadReport, RuntimeError, StateData, Traced};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use wgoose_graph::{
    Graph, ModelShape, Node, NodeId, OperandKind, Source, State, Target, Weight, WeightClass, arena, rwkv7,
};
use wgoose_kernels::{Arg, Args, Instance, Matrix, ops};
use wgoose_loader::{Model, TensorView};

/// Interprets a graph on the CPU.
pub struct CpuExecutor {
    model: Arc<Model>,
    /// One for each target, made on first use.
    graphs: HashMap<Target, Graph>,
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

/// An op that has run.
pub(crate) struct Computed<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) node: NodeId,
    pub(crate) instance: &'a Instance,
    /// What it made; empty if it only updates state.
    pub(crate) y: &'a mut [f32],
    /// The tensor of the state that it updated, of all slots.
    pub(crate) state: Option<(State, &'a [f32])>,
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
        let mut executor = CpuExecutor { model, graphs: HashMap::new(), slots, states, vectors: HashMap::new() };
        executor.enter(Target::Logits, graph);
        Ok(executor)
    }

    /// Keeps a graph, and the vectors that it reads.
    pub(crate) fn enter(&mut self, target: Target, graph: Graph) {
        for source in graph.sources().into_keys() {
            if let Source::Weight(w) = source
                && w.class() == WeightClass::Vector
            {
                self.vectors.entry(w).or_insert_with(|| self.model.tensor(w).to_f32());
            }
        }
        self.graphs.insert(target, graph);
    }

    /// Runs a batch; `on_op` is shown each op when it has run, and may change what it made for those that read it.
    pub(crate) fn run_by_op(
        &mut self,
        batch: &Batch,
        on_op: &mut dyn FnMut(&mut Computed<'_>),
    ) -> Result<Vec<f32>, RuntimeError> {
        if !self.graphs.contains_key(&batch.target) {
            let graph = rwkv7::forward_to(self.model.shape(), batch.target)?;
            self.enter(batch.target, graph);
        }
        let (shape, graph) = (batch.shape(), &self.graphs[&batch.target]);
        let Some(arena) = arena(graph, &shape) else { return Ok(Vec::new()) };
        let mut slots: Vec<Vec<f32>> = vec![Vec::new(); arena.slot_len.len()];
        for id in &arena.order {
            let node = graph.op(*id);
            let instance = Instance::of(graph, *id, &shape, &|w| self.model.tensor(w).format());
            // An op never reads the slot it writes, but for what it writes over. One that makes no value has none.
            let slot = arena.slot.get(id).copied();
            let mut y = slot.map(|slot| std::mem::take(&mut slots[slot])).unwrap_or_default();
            if node.op.in_place().is_none() {
                y.clear();
            }
            y.resize(instance.output_len(), f32::NAN);
            let inputs = graph.inputs(*id);
            let matrices: HashMap<&str, Mapped<'_>> = inputs
                .iter()
                .filter(|(operand, _)| operand.kind == OperandKind::Matrix)
                .filter_map(|(operand, input)| match graph.node(input.node) {
                    Node::Source(Source::Weight(w)) => Some((operand.name, Mapped(self.model.tensor(*w)))),
                    _ => None,
                })
                .collect();
            let updated = inputs.iter().find_map(|(operand, input)| match graph.node(input.node) {
                Node::Source(Source::State(s)) if operand.kind == OperandKind::State => Some(*s),
                _ => None,
            });
            let mut state = updated.and_then(|s| self.states.remove(&s));
            let mut args = Args::new();
            for (operand, input) in inputs.iter().filter(|(o, _)| Some(o.name) != node.op.in_place()) {
                let value = |id: NodeId| &slots[arena.slot[&id]];
                match graph.node(input.node) {
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
                    Node::Source(Source::State(s)) if operand.kind == OperandKind::OldState => {
                        args.insert(operand.name, Arg::Floats(&self.states[s]));
                    }
                    Node::Source(Source::State(_)) => {}
                    Node::Source(Source::Tokens) => args.insert(operand.name, Arg::Indices(&batch.tokens)),
                    Node::Source(Source::TokenSegments) => {
                        args.insert(operand.name, Arg::Indices(&batch.token_segments));
                    }
                    Node::Source(Source::Segments) => args.insert(operand.name, Arg::Segments(&batch.segments)),
                    Node::Source(Source::OutputRows) => args.insert(operand.name, Arg::Indices(&batch.outputs)),
                }
            }
            if let Some(state) = &mut state {
                args.insert("state", Arg::State(state));
            }
            (ops::kernels(&node.op).reference)(&instance, &mut args, &mut y);
            drop(args);
            let new_state = updated.zip(state.as_deref());
            on_op(&mut Computed { graph, node: *id, instance: &instance, y: &mut y, state: new_state });
            if let (Some(s), Some(data)) = (updated, state) {
                self.states.insert(s, data);
            }
            if let Some(slot) = slot {
                slots[slot] = y;
            }
        }
        self.model.check_unchanged()?;
        let output = graph.output().and_then(|id| arena.slot.get(&id));
        Ok(output.map(|slot| std::mem::take(&mut slots[*slot])).unwrap_or_default())
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
        self.run_by_op(batch, &mut |_| {})
    }

    fn trace(&mut self, batch: &Batch, on_value: &mut dyn FnMut(&Traced<'_>)) -> Result<Vec<f32>, RuntimeError> {
        let (mut names, shape) = (Names::default(), batch.shape());
        self.run_by_op(batch, &mut |ran| {
            if !ran.y.is_empty() {
                on_value(&names.traced(ran.graph, ran.node, &shape, ran.y));
            }
        })
    }

    fn state_tensor(&mut self, slot: usize, tensor: State) -> Result<Vec<f32>, RuntimeError> {
        let len = tensor.len(self.model.shape());
        Ok(self.states[&tensor][slot * len..][..len].to_vec())
    }

    fn reset(&mut self, slots: Range<usize>) -> Result<(), RuntimeError> {
        for (tensor, all) in &mut self.states {
            let len = tensor.len(self.model.shape());
            all[slots.start * len..slots.end * len].fill(0.0);
        }
        Ok(())
    }

    fn grow(&mut self, slots: usize) -> Result<usize, RuntimeError> {
        self.slots = self.slots.max(slots);
        for (tensor, all) in &mut self.states {
            all.resize(self.slots * tensor.len(self.model.shape()), 0.0);
        }
        Ok(self.slots)
    }

    fn fork(&self) -> Result<Box<dyn Executor>, RuntimeError> {
        let graph = self.graphs[&Target::Logits].clone();
        Ok(Box::new(CpuExecutor::with_graph(Arc::clone(&self.model), graph, 1)?))
    }

    fn in_f32(&self, slots: usize) -> Result<Box<dyn Executor>, RuntimeError> {
        Ok(Box::new(CpuExecutor::new(Arc::clone(&self.model), slots)?))
    }

    fn set_state(&mut self, slot: usize, state: &StateData) -> Result<(), RuntimeError> {
        state.check(self.model.shape())?;
        for (tensor, data) in &state.0 {
            if let Some(all) = self.states.get_mut(tensor) {
                all[slot * data.len()..][..data.len()].copy_from_slice(data);
            }
        }
        Ok(())
    }

    fn max_outputs(&self) -> usize {
        usize::MAX
    }

    fn report(&self) -> LoadReport {
        let mapped = self.model.file_len() as u64;
        LoadReport { footprint: Footprint { mapped, ..Footprint::default() }, ..LoadReport::default() }
    }
}
