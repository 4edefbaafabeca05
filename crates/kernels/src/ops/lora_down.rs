//! The first halves of the adapters, side by side: `[tanh(x_w w1^T), x_a a1^T, x_v v1^T, sigmoid(x_g g1^T)]`.

use super::maths::{activation, dot, leave_out, sum_tolerance};
use super::{Domain, OpKernels};
use crate::{Args, Instance};
use rayon::prelude::*;
use wgoose_graph::Activation;

pub(super) static OP: OpKernels = OpKernels {
    name: "lora_down",
    folder: "lora_down",
    reference,
    definition: include_str!("lora_down.rs"),
    flops: |instance| 2 * u64::from(instance.rows) * u64::from(instance.k) * u64::from(instance.m),
    tolerance: |instance| sum_tolerance(instance.k),
    domain: |operand| if operand == "x" { Domain::Activations(2.0) } else { Domain::Within(-0.1, 0.1) },
};

/// The adapters in the order of their hidden columns: matrix, plane of x, activation.
const ADAPTERS: [(&str, usize, Activation); 4] = [
    ("w1", 1, Activation::Tanh),
    ("a1", 4, Activation::None),
    ("v1", 3, Activation::None),
    ("g1", 5, Activation::Sigmoid),
];

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let x = args.floats("x");
    let (rows, k, m) = (instance.rows as usize, instance.k as usize, instance.m as usize);
    let mut first = 0;
    for (name, plane, kind) in ADAPTERS {
        let Some(matrix) = args.matrix(name) else { continue };
        let product = |row: usize| -> Vec<f64> {
            let mut weights = vec![0.0; k];
            matrix.row(row, &mut weights);
            x[plane * rows * k..][..rows * k].chunks_exact(k).map(|x| dot(x, &weights)).collect()
        };
        let wanted = matrix.wanted();
        let columns: Vec<Vec<f64>> = wanted.par_iter().map(|row| product(*row)).collect();
        for (t, y) in y.chunks_exact_mut(m).enumerate() {
            let y = &mut y[first..][..matrix.rows()];
            leave_out(y, &wanted);
            wanted.iter().zip(&columns).for_each(|(row, column)| y[*row] = activation(kind, column[t]) as f32);
        }
        first += matrix.rows();
    }
}
