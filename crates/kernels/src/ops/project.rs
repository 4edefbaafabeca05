//! Every product of the mixed inputs: planes `x_r w_r^T`, `x_k w_k^T`, `x_v w_v^T`, and what `lora_down` makes in the
//! first columns of the fourth, zeros behind it.

use super::maths::sum_tolerance;
use super::{Domain, OpKernels, lora_down, matmul};
use crate::{Arg, Args, Instance};
use wgoose_graph::{Activation, Op};

pub(super) static OP: OpKernels = OpKernels {
    name: "project",
    folder: "project",
    reference,
    definition: include_str!("project.rs"),
    flops: |instance| {
        let rows = 3 * instance.m + instance.ranks.iter().sum::<u32>();
        2 * u64::from(instance.rows) * u64::from(instance.k) * u64::from(rows)
    },
    tolerance: |instance| sum_tolerance(instance.k),
    domain: |operand| if operand == "x" { Domain::Activations(2.0) } else { Domain::Within(-0.1, 0.1) },
};

/// The matrices in the order of their planes, and the plane of x that each reads.
const PRODUCTS: [(&str, usize); 3] = [("w_r", 0), ("w_k", 2), ("w_v", 3)];

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let x = args.floats("x");
    let len = instance.rows as usize * instance.k as usize;
    let product = Instance { op: Op::Matmul { activation: Activation::None }, ..instance.clone() };
    let mut planes = y.chunks_exact_mut(instance.rows as usize * instance.m as usize);
    for ((name, plane), out) in PRODUCTS.into_iter().zip(&mut planes) {
        let Some(matrix) = args.matrix(name) else { continue };
        let mut own = Args::new();
        own.insert("x", Arg::Floats(&x[plane * len..][..len]));
        own.insert("w", Arg::Matrix(matrix));
        (matmul::OP.reference)(&product, &mut own, out);
    }
    if let Some(hidden) = planes.next() {
        hidden.fill(0.0);
        (lora_down::OP.reference)(instance, args, hidden);
    }
}
