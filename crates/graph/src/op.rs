//! The ops of the forward pass: what each one computes and what it reads, by name.
//!
//! An op makes exactly one value, `y`. Operands have the names of the WGSL bindings and of the CPU reference. Letters:
//! T tokens of the batch, S its segments, R requested output rows, C width, H heads of N channels.

use serde::{Deserialize, Serialize};

/// A function applied to every element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Activation {
    /// x
    None,
    /// tanh x
    Tanh,
    /// 1 / (1 + exp -x)
    Sigmoid,
    /// max(x, 0)^2
    ReluSquared,
    /// exp(-exp(-1/2) sigmoid x): the decay of the WKV state.
    Decay,
}

impl Activation {
    /// The name in the text form of a graph.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Activation::None => "none",
            Activation::Tanh => "tanh",
            Activation::Sigmoid => "sigmoid",
            Activation::ReluSquared => "relu2",
            Activation::Decay => "decay",
        }
    }
}

/// One op with its attributes. Formulas: the RWKV-7 reference (BlinkDL/RWKV-LM, `RWKV-v7/`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// `y[t] = table[tokens[t]]`
    Embed,
    /// `y = (x - mean) / sqrt(var + eps) * scale + bias` over a row.
    LayerNorm {
        /// Added to the variance.
        eps: f32,
    },
    /// `y[r] = x[rows[r]]`: only the rows whose logits or hidden states are asked for go on.
    SelectRows,
    /// `y[s] = sum of x[t]` over the tokens t of segment s.
    SumRows,
    /// `y[t] = x[t-1] - x[t]`, the state standing before each segment; the state takes the segment's last row.
    TokenShift,
    /// `y[p] = x + dx * mix[p]` for each plane p.
    Lerp {
        /// Number of mixes.
        planes: u32,
    },
    /// `y = activation(x w^T)`
    Matmul {
        /// Applied to the sum.
        activation: Activation,
    },
    /// `y = residual + x w^T`, written over the residual.
    MatmulAdd,
    /// `y = activation(x)`
    Activate {
        /// The function.
        activation: Activation,
    },
    /// `y = activation(x + bias)`
    BiasActivate {
        /// The function.
        activation: Activation,
    },
    /// `y = v + (v_first - v) * gate`
    ValueResidual,
    /// `y = normalise(k * k_k)` per head: L2, `max(norm, 1e-12)`.
    RemovalKey,
    /// `y = k * (1 + (a - 1) * k_a)`
    KeyUpdate,
    /// The recurrence: `S = S diag(decay) - (S kk)(kk a)^T + v k^T`, `y = S r` per head and token.
    Wkv,
    /// Norm over each head's N channels, then scale and bias.
    GroupNorm {
        /// Added to the variance: head size * 1e-5.
        eps: f32,
    },
    /// `y = x + (sum over the head of r * k * r_k) * v`
    Bonus,
    /// `y = a * b`
    Mul,
    /// `y = a + b`
    Add,
    /// `y[t] = x[t] M[t]`: row t of the matrices is an n x n matrix, row major, which that token alone is multiplied
    /// with.
    TokenMatmul,
    /// Fused: layer norm, token shift and every lerp.
    NormShift {
        /// Added to the variance.
        eps: f32,
        /// Number of mixes.
        planes: u32,
    },
    /// Fused: the first halves of the adapters with their activations, side by side: `[tanh w, a, v, sigmoid g]`.
    LoraDown {
        /// Whether the value residual's adapter takes part (not in layer 0).
        value: bool,
    },
    /// Fused: the second halves with biases and activations: planes decay, a, value gate, g.
    LoraUp {
        /// Whether the value residual's adapter takes part; its plane is left untouched otherwise.
        value: bool,
    },
    /// Fused: every product of the mixed inputs: planes r, k, v and, in the first columns of the fourth, what
    /// [`Op::LoraDown`] makes; zeros behind it.
    Project {
        /// Whether the value residual's adapter takes part (not in layer 0).
        value: bool,
    },
    /// Fused: [`Op::NormShift`] of six planes and [`Op::Project`]; a fifth plane is the normed row. It only reads the
    /// state: [`Op::ShiftStore`] updates it.
    NormProject {
        /// Added to the variance.
        eps: f32,
        /// Whether the value residual's adapter takes part (not in layer 0).
        value: bool,
    },
    /// Fused: [`Op::NormShift`] of one plane and [`Op::Matmul`]; the first columns of a second plane are the normed row,
    /// what is behind them is left untouched. It only reads the state: [`Op::ShiftStore`] updates it.
    NormMatmul {
        /// Added to the variance.
        eps: f32,
        /// Applied to the sum.
        activation: Activation,
    },
    /// The state takes the first C columns of each segment's last row. Makes nothing else: its value has no planes.
    ShiftStore,
    /// Fused: all that a time mix does between its projections and its output matrix, head by head: value residual,
    /// removal key, key update, recurrence, group norm, bonus, gate.
    TimeMixCore {
        /// Added to the variance of the group norm.
        eps: f32,
        /// Whether there is a value residual (not in layer 0).
        value: bool,
    },
    /// Fused: [`Op::LoraUp`] and [`Op::TimeMixCore`], head by head.
    TimeMixHeads {
        /// Added to the variance of the group norm.
        eps: f32,
        /// Whether there is a value residual (not in layer 0).
        value: bool,
    },
    /// Fused: the first part of [`Op::TimeMixCore`], which goes token after token: value residual, removal key, key update,
    /// recurrence.
    WkvHeads {
        /// Whether there is a value residual (not in layer 0).
        value: bool,
    },
    /// Fused: the second part of [`Op::TimeMixCore`], whose tokens are independent: group norm of x, bonus, gate. It reads
    /// what [`Op::WkvHeads`] reads and repeats the value residual and the key update.
    HeadOutput {
        /// Added to the variance of the group norm.
        eps: f32,
        /// Whether there is a value residual (not in layer 0).
        value: bool,
    },
}

/// What may stand at an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandKind {
    /// A value made by an op, one plane of it.
    Value,
    /// A value made by an op, all its planes.
    Planes,
    /// A matrix or adapter, in any weight format.
    Matrix,
    /// A vector, read as F32.
    Vector,
    /// Recurrent state: read and overwritten.
    State,
    /// Recurrent state as it was before the batch: read only. The op that overwrites it comes later.
    OldState,
    /// The token ids of the batch.
    Tokens,
    /// For each token, the segment it belongs to.
    TokenSegments,
    /// For each segment, its first token, its length and its state slot.
    Segments,
    /// The rows whose logits are asked for.
    OutputRows,
}

/// One named operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Name, the same in the graph, the reference and the WGSL.
    pub name: &'static str,
    /// What may stand there.
    pub kind: OperandKind,
}

macro_rules! operands {
    ($($name:ident: $kind:ident),*) => {
        const { &[$(Operand { name: stringify!($name), kind: OperandKind::$kind }),*] }
    };
}

impl Op {
    /// The op's name: the folder of its kernels.
    pub const fn name(&self) -> &'static str {
        match self {
            Op::Embed => "embed",
            Op::LayerNorm { .. } => "layer_norm",
            Op::SelectRows => "select_rows",
            Op::SumRows => "sum_rows",
            Op::TokenShift => "token_shift",
            Op::Lerp { .. } => "lerp",
            Op::Matmul { .. } => "matmul",
            Op::MatmulAdd => "matmul_add",
            Op::Activate { .. } => "activate",
            Op::BiasActivate { .. } => "bias_activate",
            Op::ValueResidual => "value_residual",
            Op::RemovalKey => "removal_key",
            Op::KeyUpdate => "key_update",
            Op::Wkv => "wkv",
            Op::GroupNorm { .. } => "group_norm",
            Op::Bonus => "bonus",
            Op::Mul => "mul",
            Op::Add => "add",
            Op::TokenMatmul => "token_matmul",
            Op::NormShift { .. } => "norm_shift",
            Op::LoraDown { .. } => "lora_down",
            Op::LoraUp { .. } => "lora_up",
            Op::Project { .. } => "project",
            Op::NormProject { .. } => "norm_project",
            Op::NormMatmul { .. } => "norm_matmul",
            Op::ShiftStore => "shift_store",
            Op::TimeMixCore { .. } => "time_mix_core",
            Op::TimeMixHeads { .. } => "time_mix_heads",
            Op::WkvHeads { .. } => "wkv_heads",
            Op::HeadOutput { .. } => "head_output",
        }
    }

    /// The op's operands by name and kind.
    pub const fn operands(&self) -> &'static [Operand] {
        match self {
            Op::Embed => operands![tokens: Tokens, table: Matrix],
            Op::LayerNorm { .. } | Op::GroupNorm { .. } => operands![x: Value, scale: Vector, bias: Vector],
            Op::SelectRows => operands![x: Value, rows: OutputRows],
            Op::SumRows => operands![x: Value, segments: Segments],
            Op::TokenShift => operands![x: Value, state: State, token_segments: TokenSegments, segments: Segments],
            Op::Lerp { .. } => operands![x: Value, dx: Value, mix: Vector],
            Op::Matmul { .. } => operands![x: Value, w: Matrix],
            Op::MatmulAdd => operands![x: Value, w: Matrix, residual: Value],
            Op::Activate { .. } => operands![x: Value],
            Op::BiasActivate { .. } => operands![x: Value, bias: Vector],
            Op::ValueResidual => operands![v: Value, v_first: Value, gate: Value],
            Op::RemovalKey => operands![k: Value, k_k: Vector],
            Op::KeyUpdate => operands![k: Value, a: Value, k_a: Vector],
            Op::Wkv => operands![
                r: Value, decay: Value, k: Value, v: Value, kk: Value, a: Value, state: State, segments: Segments
            ],
            Op::Bonus => operands![x: Value, r: Value, k: Value, v: Value, r_k: Vector],
            Op::Mul | Op::Add => operands![a: Value, b: Value],
            Op::TokenMatmul => operands![x: Value, matrices: Value],
            Op::NormShift { .. } => operands![
                x: Value, scale: Vector, bias: Vector, mix: Vector,
                state: State, token_segments: TokenSegments, segments: Segments
            ],
            Op::LoraDown { value: false } => operands![x: Planes, w1: Matrix, a1: Matrix, g1: Matrix],
            Op::LoraDown { value: true } => operands![x: Planes, w1: Matrix, a1: Matrix, v1: Matrix, g1: Matrix],
            Op::LoraUp { value: false } => {
                operands![x: Value, w2: Matrix, a2: Matrix, g2: Matrix, w0: Vector, a0: Vector]
            }
            Op::LoraUp { value: true } => operands![
                x: Value, w2: Matrix, a2: Matrix, v2: Matrix, g2: Matrix, w0: Vector, a0: Vector, v0: Vector
            ],
            Op::Project { value: false } => operands![
                x: Planes, w_r: Matrix, w_k: Matrix, w_v: Matrix, w1: Matrix, a1: Matrix, g1: Matrix
            ],
            Op::Project { value: true } => operands![
                x: Planes, w_r: Matrix, w_k: Matrix, w_v: Matrix, w1: Matrix, a1: Matrix, v1: Matrix, g1: Matrix
            ],
            Op::NormProject { value: false, .. } => operands![
                x: Value, scale: Vector, bias: Vector, mix: Vector,
                state: OldState, token_segments: TokenSegments, segments: Segments,
                w_r: Matrix, w_k: Matrix, w_v: Matrix, w1: Matrix, a1: Matrix, g1: Matrix
            ],
            Op::NormProject { value: true, .. } => operands![
                x: Value, scale: Vector, bias: Vector, mix: Vector,
                state: OldState, token_segments: TokenSegments, segments: Segments,
                w_r: Matrix, w_k: Matrix, w_v: Matrix, w1: Matrix, a1: Matrix, v1: Matrix, g1: Matrix
            ],
            Op::NormMatmul { .. } => operands![
                x: Value, scale: Vector, bias: Vector, mix: Vector,
                state: OldState, token_segments: TokenSegments, segments: Segments, w: Matrix
            ],
            Op::ShiftStore => operands![x: Value, state: State, segments: Segments],
            Op::TimeMixCore { value: false, .. } => operands![
                r: Value, k: Value, v: Value, decay: Value, a: Value, g: Value,
                k_k: Vector, k_a: Vector, r_k: Vector, scale: Vector, bias: Vector,
                state: State, segments: Segments
            ],
            Op::TimeMixCore { value: true, .. } => operands![
                r: Value, k: Value, v: Value, v_first: Value, gate: Value, decay: Value, a: Value, g: Value,
                k_k: Vector, k_a: Vector, r_k: Vector, scale: Vector, bias: Vector,
                state: State, segments: Segments
            ],
            Op::TimeMixHeads { value: false, .. } => operands![
                x: Value, r: Value, k: Value, v: Value,
                w2: Matrix, a2: Matrix, g2: Matrix, w0: Vector, a0: Vector,
                k_k: Vector, k_a: Vector, r_k: Vector, scale: Vector, bias: Vector,
                state: State, segments: Segments
            ],
            Op::TimeMixHeads { value: true, .. } => operands![
                x: Value, r: Value, k: Value, v: Value, v_first: Value,
                w2: Matrix, a2: Matrix, v2: Matrix, g2: Matrix, w0: Vector, a0: Vector, v0: Vector,
                k_k: Vector, k_a: Vector, r_k: Vector, scale: Vector, bias: Vector,
                state: State, segments: Segments
            ],
            Op::WkvHeads { value: false } => operands![
                r: Value, k: Value, v: Value, decay: Value, a: Value,
                k_k: Vector, k_a: Vector, state: State, segments: Segments
            ],
            Op::WkvHeads { value: true } => operands![
                r: Value, k: Value, v: Value, v_first: Value, gate: Value, decay: Value, a: Value,
                k_k: Vector, k_a: Vector, state: State, segments: Segments
            ],
            Op::HeadOutput { value: false, .. } => operands![
                x: Value, r: Value, k: Value, v: Value, a: Value, g: Value,
                k_a: Vector, r_k: Vector, scale: Vector, bias: Vector
            ],
            Op::HeadOutput { value: true, .. } => operands![
                x: Value, r: Value, k: Value, v: Value, v_first: Value, gate: Value, a: Value, g: Value,
                k_a: Vector, r_k: Vector, scale: Vector, bias: Vector
            ],
        }
    }

    /// The operand whose storage the output takes over, where the op writes in place.
    pub const fn in_place(&self) -> Option<&'static str> {
        match self {
            Op::MatmulAdd => Some("residual"),
            _ => None,
        }
    }

    /// Whether the state that the op updates is the WKV matrices.
    pub const fn updates_wkv(&self) -> bool {
        matches!(self, Op::Wkv | Op::WkvHeads { .. } | Op::TimeMixCore { .. } | Op::TimeMixHeads { .. })
    }

    /// Whether the op makes no value and is there for the state that it updates.
    pub const fn only_updates_state(&self) -> bool {
        matches!(self, Op::ShiftStore)
    }
}
