//! `y[t] = x[t] M[t]`: each token has a matrix, which comes as a row.

use super::OpKernels;
use super::maths::{sum_tolerance, unit_domain};
use crate::{Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "token_matmul",
    folder: "token_matmul",
    reference,
    definition: include_str!("token_matmul.rs"),
    flops: |instance| 2 * u64::from(instance.k) * instance.output_len() as u64,
    tolerance: |instance| sum_tolerance(instance.k),
    domain: unit_domain,
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let n = instance.m as usize;
    let x = args.floats("x").chunks_exact(n);
    let matrices = args.floats("matrices").chunks_exact(n * n);
    for ((y, x), matrix) in y.chunks_exact_mut(n).zip(x).zip(matrices) {
        for (column, y) in y.iter_mut().enumerate() {
            let of_column = matrix.iter().skip(column).step_by(n);
            let product = |(x, weight): (&f32, &f32)| f64::from(*x) * f64::from(*weight);
            *y = x.iter().zip(of_column).map(product).sum::<f64>() as f32;
        }
    }
}
