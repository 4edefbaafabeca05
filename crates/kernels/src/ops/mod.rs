//! The ops: one file each, with its maths, its CPU reference (the definition of the op), its tolerance and its cost.
//! Their kernels are files of `kernels-wgsl/ops/` ([`crate::Catalogue`]).
//!
//! References accumulate in f64 and store f32.

mod activate;
mod add;
mod bias_activate;
mod bonus;
mod embed;
mod group_norm;
mod head_output;
mod key_update;
mod layer_norm;
mod lerp;
mod lora_down;
mod lora_up;
mod maths;
mod matmul;
mod mul;
mod norm_matmul;
mod norm_project;
mod norm_shift;
mod project;
mod removal_key;
mod select_rows;
mod shift_store;
mod sum_rows;
mod time_mix_core;
mod time_mix_heads;
mod token_matmul;
mod token_shift;
mod value_residual;
mod wkv;
mod wkv_heads;

use crate::{Args, Instance};
use wgoose_graph::Op;

/// Everything known about computing an op.
#[derive(Debug)]
pub struct OpKernels {
    /// The op's name.
    pub name: &'static str,
    /// The folder of its kernels in `kernels-wgsl/ops/`.
    pub folder: &'static str,
    /// The definition: reads operands by name, writes y (and the state).
    pub reference: fn(&Instance, &mut Args<'_>, &mut [f32]),
    /// The file of the definition, for people and programs that write kernels.
    pub definition: &'static str,
    /// Floating-point operations at an instance.
    pub flops: fn(&Instance) -> u64,
    /// Largest error of a variant, relative to the root mean square of the reference's output.
    pub tolerance: fn(&Instance) -> f32,
    /// Where an operand's values lie in a model; random tests draw from it.
    pub domain: fn(&str) -> Domain,
}

/// Where an operand's values lie in a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Domain {
    /// Evenly within so far of 0, and in a trained model far beyond in a few channels: what no sigmoid or norm bounds.
    Activations(f32),
    /// Between these two, always.
    Within(f32, f32),
}

impl Domain {
    /// The range in which most values lie.
    pub fn range(self) -> (f32, f32) {
        match self {
            Domain::Activations(far) => (-far, far),
            Domain::Within(low, high) => (low, high),
        }
    }
}

/// Every op.
pub static ALL: [&OpKernels; 30] = [
    &embed::OP,
    &layer_norm::OP,
    &select_rows::OP,
    &sum_rows::OP,
    &token_shift::OP,
    &lerp::OP,
    &matmul::OP,
    &matmul::OP_ADD,
    &activate::OP,
    &bias_activate::OP,
    &value_residual::OP,
    &removal_key::OP,
    &key_update::OP,
    &wkv::OP,
    &group_norm::OP,
    &bonus::OP,
    &mul::OP,
    &add::OP,
    &token_matmul::OP,
    &norm_shift::OP,
    &lora_down::OP,
    &lora_up::OP,
    &project::OP,
    &norm_project::OP,
    &norm_matmul::OP,
    &shift_store::OP,
    &time_mix_core::OP,
    &time_mix_heads::OP,
    &wkv_heads::OP,
    &head_output::OP,
];

/// The kernels of an op.
///
/// # Panics
/// If the op has no entry in [`ALL`]: a test looks up every op of the model.
pub fn kernels(op: &Op) -> &'static OpKernels {
    ALL.iter().find(|o| o.name == op.name()).unwrap_or_else(|| panic!("op {} has no kernels", op.name()))
}
