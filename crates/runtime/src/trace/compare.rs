//! A pass on the GPU against the references of its ops, one op at a time.
//!
//! Each reference is given the operands that the GPU had, so that an error is that of the one op, whatever went wrong
//! before it, and is held against what the op is allowed alone.

use crate::kernel_bench::{largest_error, packing_error, share};
use crate::trace::Names;
use crate::{Batch, CpuExecutor, GpuExecutor, RuntimeError};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use wgoose_graph::{BatchShape, Node, NodeId, OperandKind, Source, State};
use wgoose_kernels::{Packed, Precision, ops};

/// An element of what an op makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Of its value.
    Value {
        /// The plane.
        plane: usize,
        /// The row: a token of the pass, or an output or a sequence at the end of the model.
        row: usize,
        /// The column.
        column: usize,
    },
    /// Of the state that it updates.
    State {
        /// The tensor.
        tensor: State,
        /// Index of the sequence in the batch.
        sequence: usize,
        /// The element, in the order of [`State`].
        element: usize,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Value { plane, row, column } => write!(f, "plane {plane}, row {row}, column {column}"),
            Place::State { tensor, sequence, element } => {
                write!(f, "{tensor} of sequence {sequence}, element {element}")
            }
        }
    }
}

/// How far what an op made on the GPU is from what its reference makes of the same operands.
#[derive(Clone, Debug, PartialEq)]
pub struct OpError {
    /// The op's name, see [`crate::Traced::name`].
    pub name: String,
    /// The op.
    pub op: &'static str,
    /// Its layer.
    pub layer: Option<u32>,
    /// The kernel that computed it.
    pub kernel: String,
    /// Where the error is largest.
    pub place: Place,
    /// What the GPU has there.
    pub got: f32,
    /// What the reference has there.
    pub want: f32,
    /// The largest error, relative to the root mean square of the reference's result (the value, or the state).
    pub error: f32,
    /// What is allowed: the op's tolerance, what the kernel's precision adds to it, and storing as f16.
    pub tolerance: f32,
}

impl OpError {
    /// Whether the op is as good as it has to be.
    pub fn passed(&self) -> bool {
        self.error <= self.tolerance
    }
}

impl fmt::Display for OpError {
    /// `layer 1, att.key (matmul/dot f16): ...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(layer) = self.layer {
            write!(f, "layer {layer}, ")?;
        }
        let OpError { name, kernel, place, got, want, error, tolerance, .. } = self;
        write!(f, "{name} ({kernel}): at {place} it is {got:e}, the reference {want:e}; ")?;
        write!(f, "relative error {error:.2e}, allowed {tolerance:.2e}")
    }
}

/// What an op made on the GPU.
struct Made {
    kernel: String,
    precision: Precision,
    packed: Packed,
    values: Vec<f32>,
    /// The state that it updated, of each sequence.
    state: Vec<Vec<f32>>,
}

impl GpuExecutor {
    /// Runs a batch op by op, and each op's reference on the CPU on the same operands; returns an error for each op, in
    /// the order in which they run. The first that has not [`passed`](OpError::passed) is where the GPU goes wrong.
    ///
    /// # Errors
    /// As [`crate::Executor::trace`].
    pub fn compare(&mut self, batch: &Batch) -> Result<Vec<OpError>, RuntimeError> {
        let slots: Vec<usize> = batch.segments.iter().map(|segment| segment.slot as usize).collect();
        let mut reference = self.reference(batch, &slots)?;
        let mut made: HashMap<NodeId, Made> = HashMap::new();
        self.run_by_op(batch, &mut |executor, ran| {
            let state = match updated(ran.graph, ran.node) {
                Some(tensor) => {
                    slots.iter().map(|slot| executor.read_state(*slot, tensor)).collect::<Result<_, _>>()?
                }
                None => Vec::new(),
            };
            let (kernel, precision, values) = (ran.kernel.label.clone(), ran.kernel.facts.precision, ran.values);
            made.insert(ran.node, Made { kernel, precision, packed: ran.packed, values, state });
            Ok(())
        })?;
        let (mut names, mut errors, shape) = (Names::default(), Vec::with_capacity(made.len()), batch.shape());
        reference.run_by_op(batch, &mut |ran| {
            let Some(made) = made.remove(&ran.node) else { return };
            let node = ran.graph.op(ran.node);
            let allowed =
                (ops::kernels(&node.op).tolerance)(ran.instance) + ran.instance.rounding_error(made.precision);
            let stored = |of: &[f32], is_packed: bool| if is_packed { packing_error(of) } else { 0.0 };
            let (at, mut error) = largest_error(&made.values, ran.y);
            let mut tolerance = allowed + stored(ran.y, made.packed.y);
            let value = |of: &[f32]| of.get(at).copied().unwrap_or_default();
            let (mut got, mut want) = (value(&made.values), value(ran.y));
            let mut place = place(at, node.shape.cols, &shape, node.shape.rows);
            if let Some((tensor, all)) = ran.state {
                for (sequence, (slot, ours)) in slots.iter().zip(&made.state).enumerate() {
                    let theirs = &all[slot * ours.len()..][..ours.len()];
                    let (element, of_state) = largest_error(ours, theirs);
                    let allowed = allowed + stored(theirs, made.packed.state);
                    if share(of_state, allowed) > share(error, tolerance) || ran.y.is_empty() && sequence == 0 {
                        (error, tolerance, got, want) = (of_state, allowed, ours[element], theirs[element]);
                        place = Place::State { tensor, sequence, element };
                    }
                }
            }
            // What follows reads what the GPU had.
            ran.y.copy_from_slice(&made.values);
            errors.push(OpError {
                name: names.of(ran.graph, ran.node).to_owned(),
                op: node.op.name(),
                layer: node.layer,
                kernel: made.kernel,
                place,
                got,
                want,
                error,
                tolerance,
            });
        })?;
        Ok(errors)
    }

    /// The graph of a batch on the CPU, with the states that the slots have now.
    fn reference(&mut self, batch: &Batch, slots: &[usize]) -> Result<CpuExecutor, RuntimeError> {
        use crate::Executor;
        let graph = self.graph_of(batch)?.clone();
        let mut reference = CpuExecutor::with_graph(Arc::clone(self.model()), graph.clone(), self.slots())?;
        reference.enter(batch.target, graph);
        for slot in slots {
            reference.set_state(*slot, &self.state(*slot)?)?;
        }
        Ok(reference)
    }
}

/// The tensor of the state that an op updates.
fn updated(graph: &wgoose_graph::Graph, node: NodeId) -> Option<State> {
    graph.inputs(node).into_iter().find_map(|(operand, input)| match graph.node(input.node) {
        Node::Source(Source::State(tensor)) if operand.kind == OperandKind::State => Some(*tensor),
        _ => None,
    })
}

/// The place of an element of a value.
fn place(at: usize, cols: u32, batch: &BatchShape, rows: wgoose_graph::Rows) -> Place {
    let (cols, rows) = (cols as usize, batch.rows(rows) as usize);
    Place::Value { plane: at / (rows * cols), row: at / cols % rows, column: at % cols }
}
