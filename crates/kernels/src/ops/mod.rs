//! The ops: one file each, with its maths, its CPU reference (the definition of the op), its variants and its cost.
//!
//! References accumulate in f64 and store f32.

mod activate;
mod add;
mod bias_activate;
mod blocks;
mod bonus;
mod embed;
mod group_norm;
mod key_update;
mod layer_norm;
mod lerp;
mod lora_down;
mod lora_up;
mod matmul;
mod matrix_tiles;
mod mul;
mod norm_consumer;
mod norm_matmul;
mod norm_project;
mod norm_shift;
mod pieces;
mod project;
mod removal_key;
mod select_rows;
mod shift_store;
mod sum_rows;
mod time_mix_core;
mod time_mix_heads;
mod token_shift;
mod value_residual;
mod wkv;

use crate::{Args, Refusal, Site, Tunables, Variant};
use wgoose_graph::{Activation, Op};

/// Everything known about computing an op.
#[derive(Debug)]
pub struct OpKernels {
    /// The op's name.
    pub name: &'static str,
    /// The variants, the default choice first among those that a device admits.
    pub variants: &'static [Variant],
    /// The definition: reads operands by name, writes y (and the state).
    pub reference: fn(&Site, &mut Args<'_>, &mut [f32]),
    /// Floating-point operations at a site.
    pub flops: fn(&Site) -> u64,
    /// Largest error of a variant, relative to the root mean square of the reference's output.
    pub tolerance: fn(&Site) -> f32,
    /// Range in which an operand's values lie in a model; random tests draw from it.
    pub domain: fn(&str) -> (f32, f32),
}

/// Every op.
pub static ALL: [&OpKernels; 27] = [
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
    &norm_shift::OP,
    &lora_down::OP,
    &lora_up::OP,
    &project::OP,
    &norm_project::OP,
    &norm_matmul::OP,
    &shift_store::OP,
    &time_mix_core::OP,
    &time_mix_heads::OP,
];

/// The kernels of an op.
///
/// # Panics
/// If the op has no entry in [`ALL`]: a test looks up every op of the model.
pub fn kernels(op: &Op) -> &'static OpKernels {
    ALL.iter().find(|o| o.name == op.name()).unwrap_or_else(|| panic!("op {} has no kernels", op.name()))
}

/// The variants of the op of that name; none if there is no such op.
pub fn variants(op: &str) -> &'static [Variant] {
    ALL.iter().find(|o| o.name == op).map_or(&[], |o| o.variants)
}

/// A few roundings of f32.
const ELEMENTWISE: fn(&Site) -> f32 = |_| 2e-6;

/// Sums of a row or a head in f32, with a square root.
const NORM: fn(&Site) -> f32 = |_| 2e-5;

/// A sum of k products in f32: roundings of 2^-24 that grow like sqrt(k), with a margin of 16.
fn sum_tolerance(k: u32) -> f32 {
    16.0 * f32::EPSILON * (k as f32).sqrt().max(8.0)
}

/// Normalised activations.
fn unit_domain(_: &str) -> (f32, f32) {
    (-2.0, 2.0)
}

fn any(_: &Site, _: &Tunables) -> Result<(), Refusal> {
    Ok(())
}

/// One invocation per element of y.
fn element_units(site: &Site, tunables: &Tunables) -> u64 {
    (site.output_len() as u64).div_ceil(u64::from(tunables.number("WG")))
}

/// One workgroup per row of y.
fn row_units(site: &Site, _: &Tunables) -> u64 {
    u64::from(site.rows)
}

/// One workgroup per row and head.
fn head_units(site: &Site, _: &Tunables) -> u64 {
    u64::from(site.rows) * u64::from(site.heads)
}

/// The definition of [`Activation`].
fn activation(kind: Activation, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match kind {
        Activation::None => x,
        Activation::Tanh => x.tanh(),
        Activation::Sigmoid => sigmoid(x),
        Activation::ReluSquared => x.max(0.0) * x.max(0.0),
        Activation::Decay => (-(-0.5f64).exp() * sigmoid(x)).exp(),
    }
}

/// Eight partial sums, so that the compiler can use vectors; each is exact to f64.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    let product = |(a, b): (&f32, &f32)| f64::from(*a) * f64::from(*b);
    let (a_eights, b_eights) = (a.chunks_exact(8), b.chunks_exact(8));
    let tail: f64 = a_eights.remainder().iter().zip(b_eights.remainder()).map(product).sum();
    let mut sums = [0.0; 8];
    for (a, b) in a_eights.zip(b_eights) {
        for i in 0..8 {
            sums[i] += product((&a[i], &b[i]));
        }
    }
    sums.iter().sum::<f64>() + tail
}

/// Mean and 1 / sqrt(variance + eps) of a row.
fn moments(row: &[f32], eps: f32) -> (f64, f64) {
    let n = row.len() as f64;
    let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
    let variance = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n;
    (mean, 1.0 / (variance + f64::from(eps)).sqrt())
}
