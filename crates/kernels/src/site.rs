//! A site: one op at its place, with every size known. What a kernel is specialised for and refused by.

use wgoose_graph::{Activation, BatchShape, Format, Graph, Node, NodeId, Op, OperandKind, Source, Weight};

/// One operand of a site.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteInput {
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
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// The op with its attributes.
    pub op: Op,
    /// Its operands, in the op's order.
    pub inputs: Vec<SiteInput>,
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
    /// First weight row of this dispatch, where a large matrix is bound in windows.
    pub first: u32,
    /// Weight rows of this dispatch.
    pub window: u32,
}

impl Site {
    /// The site of an op of `graph` in a batch, `format` telling how each weight is stored.
    pub fn of(graph: &Graph, id: NodeId, batch: &BatchShape, format: &dyn Fn(Weight) -> Format) -> Site {
        let node = graph.op(id);
        let model = graph.model();
        let inputs: Vec<SiteInput> = graph
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
                SiteInput { name: operand.name, kind: operand.kind, planes, rows, cols, format: weight.map(format) }
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
        let window = inputs.iter().find(|i| i.kind == OperandKind::Matrix).map_or(m, |i| i.rows);
        Site {
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
            window,
            inputs,
        }
    }

    /// The operand of that name.
    pub fn input(&self, name: &str) -> Option<&SiteInput> {
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

    /// The value of an `// op:` literal, as WGSL writes it; `None` if no op has a literal of that name.
    pub fn literal(&self, name: &str) -> Option<String> {
        let activation = match self.op {
            Op::Matmul { activation } | Op::NormMatmul { activation, .. } => activation,
            Op::Activate { activation } | Op::BiasActivate { activation } => activation,
            _ => Activation::None,
        };
        Some(match name {
            "activation" => match activation {
                Activation::None => "NONE",
                Activation::Tanh => "TANH",
                Activation::Sigmoid => "SIGMOID",
                Activation::ReluSquared => "RELU_SQUARED",
                Activation::Decay => "DECAY",
            }
            .into(),
            "add" => (self.op == Op::MatmulAdd).to_string(),
            "head_size" => format!("{}u", self.head_size),
            "k" => format!("{}u", self.k),
            "rank_decay" => format!("{}u", self.ranks[0]),
            "rank_iclr" => format!("{}u", self.ranks[1]),
            "rank_value" => format!("{}u", self.ranks[2]),
            "rank_gate" => format!("{}u", self.ranks[3]),
            "planes" => format!("{}u", self.planes),
            _ => return None,
        })
    }

    /// The epsilon of a norm, else 0.
    pub fn eps(&self) -> f32 {
        match self.op {
            Op::LayerNorm { eps } | Op::GroupNorm { eps } | Op::NormShift { eps, .. } => eps,
            Op::NormProject { eps, .. } | Op::NormMatmul { eps, .. } => eps,
            Op::TimeMixCore { eps, .. } | Op::TimeMixHeads { eps, .. } => eps,
            _ => 0.0,
        }
    }

    /// The uniform block of a dispatch: twin of `kernels-wgsl/shared/params.wgsl`.
    pub fn params(&self) -> [u32; 12] {
        let [a, b, c, d] = self.ranks;
        let eps = self.eps().to_bits();
        [self.rows, self.k, self.m, self.heads, self.segments, self.first, self.window, eps, a, b, c, d]
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
        let mut total = self.output_len() as u64 * 4;
        for i in &self.inputs {
            let len = u64::from(i.planes) * u64::from(i.rows) * u64::from(i.cols);
            total += match (i.kind, i.format) {
                (OperandKind::Matrix, Some(f)) if one_row_a_token => {
                    f.bytes(self.rows as usize, i.cols as usize).unwrap_or(0) as u64
                }
                (OperandKind::Matrix, Some(f)) => f.bytes(i.rows as usize, i.cols as usize).unwrap_or(0) as u64,
                (OperandKind::State, _) => 8 * len * u64::from(self.segments),
                (OperandKind::OldState, _) => 4 * len * u64::from(self.segments),
                _ => 4 * len,
            };
        }
        total
    }
}
