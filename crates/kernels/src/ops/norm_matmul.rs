//! Layer norm, token shift, lerp and product in one: a plane of products `f(x w^T)`, and one whose first columns are
//! the normed row.

use super::maths::{normed_domain, normed_tolerance};
use super::{OpKernels, matmul, norm_shift};
use crate::{Arg, Args, Instance};
use wgoose_graph::{Activation, Op};

pub(super) static OP: OpKernels = OpKernels {
    name: "norm_matmul",
    folder: "norm_matmul",
    reference,
    definition: include_str!("norm_matmul.rs"),
    flops: |instance| (matmul::OP.flops)(instance) + 20 * u64::from(instance.rows) * u64::from(instance.k),
    tolerance: |instance| match instance.op {
        // Squaring doubles the relative error.
        Op::NormMatmul { activation: Activation::ReluSquared, .. } => 2.0 * normed_tolerance(instance),
        _ => normed_tolerance(instance),
    },
    domain: normed_domain,
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let Op::NormMatmul { activation, .. } = instance.op else { return };
    let (k, m) = (instance.k as usize, instance.m as usize);
    let mut x = vec![0.0; instance.rows as usize * k];
    let rows = norm_shift::mixed(instance, args, args.floats("state"), &mut x);
    let (products, normed) = y.split_at_mut(instance.rows as usize * m);
    for (own, row) in normed.chunks_exact_mut(m).zip(rows.chunks_exact(k)) {
        own[..k].copy_from_slice(row);
    }
    let product = Instance { op: Op::Matmul { activation }, ..instance.clone() };
    let mut own = Args::new();
    own.insert("x", Arg::Floats(&x));
    if let Some(w) = args.matrix("w") {
        own.insert("w", Arg::Matrix(w));
    }
    (matmul::OP.reference)(&product, &mut own, products);
}
