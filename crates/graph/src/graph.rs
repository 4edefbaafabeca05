//! The graph: sources (weights, state, the batch) and ops; an edge says at which operand a node is read.

use crate::{ModelShape, Op, Operand, OperandKind, Weight};
use petgraph::Direction::{Incoming, Outgoing};
use petgraph::stable_graph::{NodeIndex, StableDiGraph};
use petgraph::visit::EdgeRef;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::fmt;

/// A node of the graph; an op's id also names the value it makes.
pub type NodeId = NodeIndex<u32>;

/// How many rows a value has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rows {
    /// One per token of the batch (T).
    Tokens,
    /// One per requested output (R).
    Outputs,
    /// One per segment of the batch (S).
    Segments,
    /// A constant: weights.
    Fixed(u32),
}

/// The shape of a value: `planes` stacked `[rows, cols]` matrices of f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueShape {
    /// Stacked matrices: 1, but for the mixed inputs and the outputs of fused ops; 0 of an op that only updates state.
    pub planes: u32,
    /// Rows of each.
    pub rows: Rows,
    /// Columns of each.
    pub cols: u32,
}

impl fmt::Display for ValueShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        if self.planes != 1 {
            write!(f, "{}, ", self.planes)?;
        }
        match self.rows {
            Rows::Tokens => write!(f, "T, {}]", self.cols),
            Rows::Outputs => write!(f, "R, {}]", self.cols),
            Rows::Segments => write!(f, "S, {}]", self.cols),
            Rows::Fixed(n) => write!(f, "{n}, {}]", self.cols),
        }
    }
}

/// A tensor of the recurrent state of one layer; one row per sequence slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// `[C]`: last normed input of the time mix.
    AttShift(u32),
    /// `[C]`: last normed input of the channel mix.
    FfnShift(u32),
    /// `[H, value, key]`: the WKV matrices.
    Wkv(u32),
}

impl State {
    /// Every tensor of the state, layer by layer.
    pub fn all(shape: &ModelShape) -> impl Iterator<Item = State> {
        (0..shape.layers).flat_map(|i| [State::AttShift(i), State::Wkv(i), State::FfnShift(i)])
    }

    /// Its layer, from 0.
    pub const fn layer(self) -> u32 {
        match self {
            State::AttShift(layer) | State::FfnShift(layer) | State::Wkv(layer) => layer,
        }
    }

    /// Floats per sequence.
    pub const fn len(self, shape: &ModelShape) -> usize {
        match self {
            State::AttShift(_) | State::FfnShift(_) => shape.width as usize,
            State::Wkv(_) => shape.width as usize * shape.head_size as usize,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::AttShift(i) => write!(f, "blocks.{i}.att_shift"),
            State::FfnShift(i) => write!(f, "blocks.{i}.ffn_shift"),
            State::Wkv(i) => write!(f, "blocks.{i}.wkv"),
        }
    }
}

/// Where a value that no op makes comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A tensor of the model.
    Weight(Weight),
    /// Recurrent state.
    State(State),
    /// Token ids, one per token.
    Tokens,
    /// Segment of each token.
    TokenSegments,
    /// First token, length and state slot of each segment.
    Segments,
    /// Token index of each requested output.
    OutputRows,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Weight(w) => w.fmt(f),
            Source::State(s) => write!(f, "&{s}"),
            Source::Tokens => f.write_str("tokens"),
            Source::TokenSegments => f.write_str("token_segments"),
            Source::Segments => f.write_str("segments"),
            Source::OutputRows => f.write_str("output_rows"),
        }
    }
}

/// An op in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct OpNode {
    /// What it computes.
    pub op: Op,
    /// Its role in the model, e.g. `att.key`.
    pub role: &'static str,
    /// The layer it belongs to.
    pub layer: Option<u32>,
    /// Shape of the value it makes.
    pub shape: ValueShape,
    /// Ties between ready ops go to the lower order.
    order: u32,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// Something given.
    Source(Source),
    /// Something computed.
    Op(OpNode),
}

/// One use of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Operand at which it is read.
    pub operand: &'static str,
    /// The plane that is read, or all of them.
    pub plane: Option<u32>,
}

/// What stands at an operand: a node, and the plane of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// The node.
    pub node: NodeId,
    /// The plane that is read, or all of them.
    pub plane: Option<u32>,
}

impl From<NodeId> for Input {
    fn from(node: NodeId) -> Self {
        Input { node, plane: None }
    }
}

/// The forward pass as a graph.
#[derive(Clone, Debug)]
pub struct Graph {
    model: ModelShape,
    nodes: StableDiGraph<Node, Use, u32>,
    sources: HashMap<Source, NodeId>,
    output: Option<NodeId>,
    next_order: u32,
}

impl Graph {
    /// An empty graph for a model of that shape.
    pub(crate) fn new(model: ModelShape) -> Self {
        Graph { model, nodes: StableDiGraph::default(), sources: HashMap::new(), output: None, next_order: 0 }
    }

    /// The model's sizes.
    pub fn model(&self) -> &ModelShape {
        &self.model
    }

    /// The node of a source, made on first use.
    pub(crate) fn source(&mut self, source: Source) -> NodeId {
        let nodes = &mut self.nodes;
        *self.sources.entry(source).or_insert_with(|| nodes.add_node(Node::Source(source)))
    }

    /// Adds an op after all others and returns the value it makes.
    ///
    /// # Errors
    /// The operand that is missing or does not fit.
    pub(crate) fn push(
        &mut self,
        op: Op,
        layer: Option<u32>,
        role: &'static str,
        inputs: &[(&'static str, Input)],
    ) -> Result<NodeId, GraphError> {
        let order = self.next_order;
        self.next_order += 1;
        self.insert(op, layer, role, inputs, order)
    }

    fn insert(
        &mut self,
        op: Op,
        layer: Option<u32>,
        role: &'static str,
        inputs: &[(&'static str, Input)],
        order: u32,
    ) -> Result<NodeId, GraphError> {
        let shapes: BTreeMap<&str, ValueShape> =
            inputs.iter().filter_map(|(name, input)| Some((*name, self.input_shape(*input)?))).collect();
        let shape = op.infer(&self.model, &|name| shapes.get(name).copied()).map_err(|why| GraphError {
            op: op.name(),
            role,
            layer,
            why,
        })?;
        let node = self.nodes.add_node(Node::Op(OpNode { op, role, layer, shape, order }));
        for (operand, input) in inputs {
            self.nodes.add_edge(input.node, node, Use { operand, plane: input.plane });
        }
        Ok(node)
    }

    /// Adds an op in the layer and at the place of another.
    ///
    /// # Errors
    /// The operand that is missing or does not fit; the graph is then unchanged.
    pub(crate) fn insert_at(
        &mut self,
        place: NodeId,
        op: Op,
        role: &'static str,
        inputs: &[(&'static str, Input)],
    ) -> Result<NodeId, GraphError> {
        let OpNode { layer, order, .. } = *self.op(place);
        self.insert(op, layer, role, inputs, order)
    }

    /// Lets every reader of the `old` values read `new` instead (that plane of it, if given), and removes the ops
    /// and sources that nothing reads any more.
    pub fn take_over(&mut self, new: NodeId, old: &[(NodeId, Option<u32>)]) {
        for (old, plane) in old {
            for (reader, used) in self.readers(*old) {
                self.rewire(reader, used.operand, Input { node: new, plane: plane.or(used.plane) });
            }
            if self.output == Some(*old) {
                self.output = Some(new);
            }
        }
        self.sweep();
    }

    /// Makes `operand` of `op` read something else.
    pub fn rewire(&mut self, op: NodeId, operand: &str, input: Input) {
        let old = self.nodes.edges_directed(op, Incoming).find(|e| e.weight().operand == operand);
        if let Some((id, used)) = old.map(|e| (e.id(), *e.weight())) {
            self.nodes.remove_edge(id);
            self.nodes.add_edge(input.node, op, Use { plane: input.plane, ..used });
        }
    }

    /// Changes the attributes of an op. The legality rules say whether the result still fits.
    pub fn replace_op(&mut self, id: NodeId, op: Op) {
        if let Node::Op(node) = &mut self.nodes[id] {
            node.op = op;
        }
    }

    /// Removes ops and sources that nothing reads.
    fn sweep(&mut self) {
        loop {
            let output = self.output;
            let is_kept = |id: &NodeId| match &self.nodes[*id] {
                Node::Op(op) => Some(*id) == output || op.op.only_updates_state(),
                Node::Source(_) => false,
            };
            let dead = |id: &NodeId| !is_kept(id) && self.nodes.edges_directed(*id, Outgoing).next().is_none();
            let dead: Vec<NodeId> = self.nodes.node_indices().filter(dead).collect();
            if dead.is_empty() {
                return;
            }
            for id in dead {
                if let Some(Node::Source(s)) = self.nodes.remove_node(id) {
                    self.sources.remove(&s);
                }
            }
        }
    }

    /// Declares the value the pass is for.
    pub(crate) fn set_output(&mut self, id: NodeId) {
        self.output = Some(id);
    }

    /// The value the pass is for.
    pub fn output(&self) -> Option<NodeId> {
        self.output
    }

    /// A node.
    ///
    /// # Panics
    /// If the id is not of this graph.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    /// An op.
    ///
    /// # Panics
    /// If the id is not an op of this graph.
    pub fn op(&self, id: NodeId) -> &OpNode {
        match &self.nodes[id] {
            Node::Op(op) => op,
            Node::Source(s) => panic!("{s} is a source, not an op"),
        }
    }

    /// The node of a source, if anything reads it.
    pub(crate) fn find_source(&self, source: Source) -> Option<NodeId> {
        self.sources.get(&source).copied()
    }

    /// Every op, in no particular order.
    pub fn op_ids(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.node_indices().filter(|id| matches!(self.nodes[*id], Node::Op(_)))
    }

    /// The layers that have ops: all of the model's, or the first few where the output is a hidden state of one of them.
    pub(crate) fn depth(&self) -> u32 {
        self.op_ids().filter_map(|id| self.op(id).layer).map(|layer| layer + 1).max().unwrap_or(0)
    }

    /// Every source that is read, in the order of [`Source`].
    pub fn sources(&self) -> BTreeMap<Source, NodeId> {
        self.sources.iter().map(|(s, id)| (*s, *id)).collect()
    }

    /// What an op reads at an operand.
    pub fn input(&self, op: NodeId, operand: &str) -> Option<Input> {
        let edge = self.nodes.edges_directed(op, Incoming).find(|e| e.weight().operand == operand)?;
        Some(Input { node: edge.source(), plane: edge.weight().plane })
    }

    /// What an op reads, in the order of its operands.
    pub fn inputs(&self, op: NodeId) -> Vec<(Operand, Input)> {
        let operands = self.op(op).op.operands();
        operands.iter().filter_map(|o| Some((*o, self.input(op, o.name)?))).collect()
    }

    /// Every operand name connected to an op, in no particular order, duplicates included.
    pub(crate) fn connected(&self, op: NodeId) -> Vec<&'static str> {
        self.nodes.edges_directed(op, Incoming).map(|e| e.weight().operand).collect()
    }

    /// Who reads a node, and how.
    pub fn readers(&self, id: NodeId) -> Vec<(NodeId, Use)> {
        self.nodes.edges_directed(id, Outgoing).map(|e| (e.target(), *e.weight())).collect()
    }

    /// Whether an op was added after another one, so that it may depend on it.
    pub(crate) fn is_later(&self, op: NodeId, than: NodeId) -> bool {
        self.op(op).order > self.op(than).order
    }

    /// Whether an op reads what it reads there as that kind of operand.
    pub(crate) fn reads_as(&self, reader: NodeId, used: &Use, kind: OperandKind) -> bool {
        self.op(reader).op.operands().iter().any(|o| o.name == used.operand && o.kind == kind)
    }

    /// The shape of what stands at an operand: one plane of a value, all of it, or a weight's shape.
    pub fn input_shape(&self, input: Input) -> Option<ValueShape> {
        match self.nodes.node_weight(input.node)? {
            Node::Op(op) if input.plane.is_some() => Some(ValueShape { planes: 1, ..op.shape }),
            Node::Op(op) => Some(op.shape),
            Node::Source(Source::Weight(w)) => {
                let [rows, cols] = w.shape(&self.model);
                Some(ValueShape { planes: 1, rows: Rows::Fixed(rows), cols })
            }
            Node::Source(_) => None,
        }
    }

    /// The ops in an order in which every op follows what it reads; deterministic. `None` if there is a cycle.
    ///
    /// An op that writes in place also follows every other reader of what it overwrites, and one that updates state every
    /// op that reads the old state.
    pub fn schedule(&self) -> Option<Vec<NodeId>> {
        let mut waits: HashMap<NodeId, BTreeSet<NodeId>> = HashMap::new();
        for id in self.op_ids() {
            let mut before: BTreeSet<NodeId> = self.nodes.neighbors_directed(id, Incoming).collect();
            if let Some(residual) = self.op(id).op.in_place().and_then(|operand| self.input(id, operand)) {
                before.extend(self.readers(residual.node).into_iter().map(|(r, _)| r).filter(|r| *r != id));
            }
            let updated = self.inputs(id).into_iter().filter(|(operand, _)| operand.kind == OperandKind::State);
            let readers = updated.flat_map(|(_, state)| self.readers(state.node));
            before.extend(readers.filter(|(r, used)| self.reads_as(*r, used, OperandKind::OldState)).map(|(r, _)| r));
            before.retain(|b| matches!(self.nodes[*b], Node::Op(_)));
            waits.insert(id, before);
        }
        let mut followers: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
        for (id, before) in &waits {
            for b in before {
                followers.entry(*b).or_default().push(*id);
            }
        }
        let key = |id: NodeId| Reverse((self.op(id).order, id));
        let mut ready: BinaryHeap<_> = waits.iter().filter(|(_, b)| b.is_empty()).map(|(id, _)| key(*id)).collect();
        let mut order = Vec::with_capacity(waits.len());
        while let Some(Reverse((_, id))) = ready.pop() {
            order.push(id);
            for follower in followers.remove(&id).unwrap_or_default() {
                if let Some(before) = waits.get_mut(&follower) {
                    before.remove(&id);
                    if before.is_empty() {
                        ready.push(key(follower));
                    }
                }
            }
        }
        (order.len() == waits.len()).then_some(order)
    }

    /// Whether `kind` may stand at the end of an edge from this node.
    pub(crate) fn fits(&self, input: Input, kind: OperandKind) -> bool {
        use crate::WeightClass::{Adapter, Matrix, Vector};
        match (&self.nodes[input.node], kind) {
            (Node::Op(op), OperandKind::Value) => match input.plane {
                Some(p) => p < op.shape.planes,
                None => op.shape.planes == 1,
            },
            (Node::Op(_), OperandKind::Planes) => input.plane.is_none(),
            (Node::Source(Source::Weight(w)), OperandKind::Matrix) => matches!(w.class(), Matrix | Adapter),
            (Node::Source(Source::Weight(w)), OperandKind::Vector) => w.class() == Vector,
            (Node::Source(Source::State(_)), OperandKind::State | OperandKind::OldState)
            | (Node::Source(Source::Tokens), OperandKind::Tokens)
            | (Node::Source(Source::TokenSegments), OperandKind::TokenSegments)
            | (Node::Source(Source::Segments), OperandKind::Segments)
            | (Node::Source(Source::OutputRows), OperandKind::OutputRows) => true,
            _ => false,
        }
    }
}

/// An op that cannot stand where it was put.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{op} ({role}{}): {why}", layer.map(|l| format!(", layer {l}")).unwrap_or_default())]
pub struct GraphError {
    /// The op.
    pub op: &'static str,
    /// Its role in the model.
    pub role: &'static str,
    /// Its layer.
    pub layer: Option<u32>,
    /// What does not fit.
    pub why: String,
}
