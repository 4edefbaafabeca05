//! An op instance: one op at its place in a graph, with every size known. A kernel is specialised for it, or refused.

use crate::wgsl::{Fact, Reader};
use crate::written_instance::WrittenInstance;
use crate::{Params, StateFormat, bucket};
use serde::{Deserialize, Serialize};
use std::fmt;
use wgoose_graph::{Activation, BatchShape, Format, Graph, Node, NodeId, Op, OperandKind, Source, Weight};

/// One operand of an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceInput {
    /// Operand name.
    pub name: &'static str,
    /// What stands there.
    pub kind: OperandKind,
    /// Stacked matrices.
    pub planes: u32,
    /// Rows of each; for state, per sequence slot.
    pub rows: u32,
    /// Columns of each.
    pub cols: u32,
    /// Weight format, for matrices.
    pub format: Option<Format>,
}

/// One op at its place in a graph, for one batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "WrittenInstance", try_from = "WrittenInstance")]
pub struct Instance {
    /// The op with its attributes.
    pub op: Op,
    /// Its operands, in the op's order.
    pub inputs: Vec<InstanceInput>,
    /// Stacked matrices of y.
    pub planes: u32,
    /// Rows of y: tokens, or requested outputs.
    pub rows: u32,
    /// Columns of the first operand that is a value (of y, if there is none).
    pub k: u32,
    /// Columns of y.
    pub m: u32,
    /// Heads of the model.
    pub heads: u32,
    /// Channels per head.
    pub head_size: u32,
    /// Segments of the batch.
    pub segments: u32,
    /// Adapter ranks decay, in-context learning rate, value (0 where it takes no part), gate.
    pub ranks: [u32; 4],
    /// First weight row of this dispatch, where a large matrix is bound in row shards.
    pub first: u32,
    /// Weight rows of this dispatch.
    pub shard_rows: u32,
    /// What of it is stored as packed f16.
    pub packed: Packed,
}

/// What of an op is stored as packed f16, two to a word. Values are stored as their sixteenths: what kernels of the
/// matrix units make of x anyway (`kernels-wgsl/lib/coop/halves/one.wgsl`). All else is f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packed {
    /// The operand `x`, all planes of it.
    pub x: bool,
    /// The value that it makes.
    pub y: bool,
    /// The WKV matrices that it updates, which have no scale: [`StateFormat::F16`].
    pub state: bool,
}

/// How a kernel's file says that it knows an operand as packed f16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knows {
    /// A constant of its is set by the size of that name.
    Size(&'static str),
    /// It imports the operand's readers in that folder by their format.
    Readers(&'static str),
}

impl fmt::Display for Knows {
    /// The line of such a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Knows::Size(name) => write!(f, "// op: {name}"),
            Knows::Readers(folder) => write!(f, "#import {folder}/*"),
        }
    }
}

/// A size of an instance: the name that kernel files and rules have for it, and its value.
type Size = (&'static str, fn(&Instance) -> u32);

/// Every size.
const SIZES: [Size; 13] = [
    ("rows", |i| i.rows),
    // Rules go by the bucket: a plan's choice has to serve every row count of its bucket.
    ("up_to_rows", |i| bucket(i.rows)),
    ("k", |i| i.k),
    ("m", |i| i.m),
    ("shard_rows", |i| i.shard_rows),
    ("heads", |i| i.heads),
    ("head_size", |i| i.head_size),
    ("segments", |i| i.segments),
    ("planes", |i| i.planes),
    ("rank_decay", |i| i.ranks[0]),
    ("rank_iclr", |i| i.ranks[1]),
    ("rank_value", |i| i.ranks[2]),
    ("rank_gate", |i| i.ranks[3]),
];

impl Packed {
    /// What values are divided by: those up to a million are finite.
    pub const SCALE: f32 = 16.0;

    /// What is packed: each operand, and how a kernel's file says that it knows it so.
    pub(crate) fn operands(self) -> impl Iterator<Item = (&'static str, Knows)> {
        let all = [
            (self.x, "x", Knows::Size("x_packed")),
            (self.y, "y", Knows::Size("y_packed")),
            (self.state, "state", Knows::Readers("lib/state")),
        ];
        all.into_iter().filter(|(is_packed, ..)| *is_packed).map(|(_, operand, knows)| (operand, knows))
    }
}

impl Instance {
    /// The instance of an op of `graph` in a batch, `format` telling how each weight is stored.
    pub fn of(graph: &Graph, id: NodeId, batch: &BatchShape, format: &dyn Fn(Weight) -> Format) -> Instance {
        let node = graph.op(id);
        let model = graph.model();
        let inputs: Vec<InstanceInput> = graph
            .inputs(id)
            .into_iter()
            .map(|(operand, input)| {
                let shape = graph.input_shape(input);
                let (planes, rows, cols) = match (shape, graph.node(input.node)) {
                    (Some(s), _) => (s.planes, batch.rows(s.rows), s.cols),
                    (None, Node::Source(Source::State(state))) => (1, 1, state.len(model) as u32),
                    (None, _) => match operand.kind {
                        OperandKind::Segments => (1, batch.segments, 4),
                        OperandKind::OutputRows => (1, batch.outputs, 1),
                        _ => (1, batch.tokens, 1),
                    },
                };
                let weight = match graph.node(input.node) {
                    Node::Source(Source::Weight(w)) if operand.kind == OperandKind::Matrix => Some(*w),
                    _ => None,
                };
                InstanceInput { name: operand.name, kind: operand.kind, planes, rows, cols, format: weight.map(format) }
            })
            .collect();
        let m = node.shape.cols;
        let value = inputs.iter().find(|i| matches!(i.kind, OperandKind::Value | OperandKind::Planes));
        let k = value.map_or(m, |i| i.cols);
        let value_rank = match node.op {
            Op::LoraDown { value: false } | Op::LoraUp { value: false } => 0,
            Op::Project { value: false } | Op::NormProject { value: false, .. } => 0,
            Op::TimeMixHeads { value: false, .. } => 0,
            _ => model.ranks.value,
        };
        let shard_rows = inputs.iter().find(|i| i.kind == OperandKind::Matrix).map_or(m, |i| i.rows);
        Instance {
            op: node.op,
            planes: node.shape.planes,
            rows: batch.rows(node.shape.rows),
            k,
            m,
            heads: model.heads(),
            head_size: model.head_size,
            segments: batch.segments,
            ranks: [model.ranks.decay, model.ranks.iclr, value_rank, model.ranks.gate],
            first: 0,
            shard_rows,
            packed: Packed::default(),
            inputs,
        }
    }

    /// The same op with another number of rows; `None` where its operands do not simply have as many rows as y.
    pub fn with_rows(&self, rows: u32) -> Option<Instance> {
        let mut other = Instance { rows, ..self.clone() };
        for input in &mut other.inputs {
            match input.kind {
                OperandKind::Value | OperandKind::Planes | OperandKind::TokenSegments | OperandKind::Tokens
                    if input.rows == self.rows =>
                {
                    input.rows = rows;
                }
                OperandKind::Matrix | OperandKind::Vector | OperandKind::Segments => {}
                OperandKind::State | OperandKind::OldState => {}
                _ => return None,
            }
        }
        (rows >= self.segments).then_some(other)
    }

    /// Whether a kernel may write to the binding of that name: y, the state, and what is the kernel's own.
    pub(crate) fn may_write(&self, binding: &str) -> bool {
        self.input(binding).is_none_or(|input| input.kind == OperandKind::State)
    }

    /// The operand of that name.
    pub fn input(&self, name: &str) -> Option<&InstanceInput> {
        self.inputs.iter().find(|i| i.name == name)
    }

    /// The format of the matrix at that operand.
    pub fn format(&self, name: &str) -> Option<Format> {
        self.input(name).and_then(|i| i.format)
    }

    /// Floats of y.
    pub fn output_len(&self) -> usize {
        self.planes as usize * self.rows as usize * self.m as usize
    }

    /// Whether rules know a size or a truth value of ops by this name.
    pub(crate) fn is_fact(name: &str) -> bool {
        ["add", "x_packed", "y_packed"].contains(&name) || SIZES.iter().any(|(size, _)| *size == name)
    }

    /// What a kernel file knows by this name in `// op:` and `// grid:`, and a speed heuristic; `None` if no op has
    /// such a size.
    pub(crate) fn fact(&self, name: &str) -> Option<Fact> {
        let activation = match self.op {
            Op::Matmul { activation } | Op::NormMatmul { activation, .. } => activation,
            Op::Activate { activation } | Op::BiasActivate { activation } => activation,
            _ => Activation::None,
        };
        Some(match name {
            "activation" => Fact::Name(match activation {
                Activation::None => "NONE",
                Activation::Tanh => "TANH",
                Activation::Sigmoid => "SIGMOID",
                Activation::ReluSquared => "RELU_SQUARED",
                Activation::Decay => "DECAY",
            }),
            "add" => Fact::Bool(self.op == Op::MatmulAdd),
            "x_packed" => Fact::Bool(self.packed.x),
            "y_packed" => Fact::Bool(self.packed.y),
            _ => {
                let (_, size) = SIZES.iter().find(|(size, _)| *size == name)?;
                Fact::Number(size(self).into())
            }
        })
    }

    /// How kernels read an operand.
    pub(crate) fn reader(&self, operand: &str) -> Reader {
        match self.input(operand) {
            None => Reader::Absent,
            Some(input) if input.kind == OperandKind::Matrix => {
                Reader::Format(input.format.map_or("F32", Format::name))
            }
            Some(input) if input.kind == OperandKind::State => Reader::Format(self.state_format().name()),
            Some(_) => Reader::Plain,
        }
    }

    /// How the state that it updates is stored.
    pub fn state_format(&self) -> StateFormat {
        if self.packed.state { StateFormat::F16 } else { StateFormat::F32 }
    }

    /// The epsilon of a norm, else 0.
    pub(crate) fn eps(&self) -> f32 {
        match self.op {
            Op::LayerNorm { eps } | Op::GroupNorm { eps } | Op::NormShift { eps, .. } => eps,
            Op::NormProject { eps, .. } | Op::NormMatmul { eps, .. } => eps,
            Op::TimeMixCore { eps, .. } | Op::TimeMixHeads { eps, .. } | Op::HeadOutput { eps, .. } => eps,
            _ => 0.0,
        }
    }

    /// The uniform block of a dispatch.
    pub fn params(&self) -> Params {
        Params {
            rows: self.rows,
            k: self.k,
            m: self.m,
            heads: self.heads,
            segments: self.segments,
            first: self.first,
            shard_rows: self.shard_rows,
            eps: self.eps(),
            ranks: self.ranks,
        }
    }

    /// Bytes that must cross the memory bus at least once: operands in, y out, state in and out.
    pub fn bytes(&self) -> u64 {
        // An embedding reads one row a token, not the table.
        self.bytes_of(self.op == Op::Embed)
    }

    /// Bytes of all that its operands and y are, a table of embeddings as a whole too.
    pub fn held_bytes(&self) -> u64 {
        self.bytes_of(false)
    }

    fn bytes_of(&self, one_row_a_token: bool) -> u64 {
        let float = |packed: bool| if packed { 2 } else { 4 };
        let mut total = self.output_len() as u64 * float(self.packed.y);
        for i in &self.inputs {
            let len = u64::from(i.planes) * u64::from(i.rows) * u64::from(i.cols);
            total += match (i.kind, i.format) {
                (OperandKind::Matrix, Some(f)) if one_row_a_token => {
                    f.bytes(self.rows as usize, i.cols as usize).unwrap_or(0) as u64
                }
                (OperandKind::Matrix, Some(f)) => f.bytes(i.rows as usize, i.cols as usize).unwrap_or(0) as u64,
                (OperandKind::State, _) => 2 * self.state_format().value_bytes() * len * u64::from(self.segments),
                (OperandKind::OldState, _) => 4 * len * u64::from(self.segments),
                _ => float(self.packed.x && i.name == "x") * len,
            };
        }
        total
    }
}
