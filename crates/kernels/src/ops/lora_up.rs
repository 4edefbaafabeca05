//! The second halves of the adapters with biases and activations, from their hidden values side by side in the first
//! columns of x: planes
//! `decay(w0 + h w2^T)`, `sigmoid(a0 + h a2^T)`, `sigmoid(v0 + h v2^T)`, `h g2^T`.

use super::maths::{activation, dot, leave_out, sum_tolerance};
use super::{Domain, OpKernels};
use crate::{Args, Instance};
use rayon::prelude::*;
use wgoose_graph::Activation;

pub(super) static OP: OpKernels = OpKernels {
    name: "lora_up",
    folder: "lora_up",
    reference,
    definition: include_str!("lora_up.rs"),
    flops: |instance| {
        2 * u64::from(instance.rows) * u64::from(instance.ranks.iter().sum::<u32>()) * u64::from(instance.m)
    },
    tolerance: |instance| sum_tolerance(instance.ranks.iter().sum()),
    domain: |operand| if operand == "x" { Domain::Within(-1.0, 1.0) } else { Domain::Within(-0.3, 0.3) },
};

/// The adapters in the order of the planes: matrix, bias, activation.
const ADAPTERS: [(&str, Option<&str>, Activation); 4] = [
    ("w2", Some("w0"), Activation::Decay),
    ("a2", Some("a0"), Activation::Sigmoid),
    ("v2", Some("v0"), Activation::Sigmoid),
    ("g2", None, Activation::None),
];

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let x = args.floats("x");
    let (rows, k, m) = (instance.rows as usize, instance.k as usize, instance.m as usize);
    let mut first = 0;
    for (plane, (name, bias, kind)) in ADAPTERS.into_iter().enumerate() {
        let Some(matrix) = args.matrix(name) else { continue };
        let rank = matrix.cols();
        // Row by row of the matrix, so that each is decoded once: columns[row][token].
        let product = |row: usize| -> Vec<f64> {
            let mut weights = vec![0.0; rank];
            matrix.row(row, &mut weights);
            x.chunks_exact(k).map(|x| dot(&x[first..][..rank], &weights)).collect()
        };
        let wanted = matrix.wanted();
        let columns: Vec<Vec<f64>> = wanted.par_iter().map(|row| product(*row)).collect();
        let bias = bias.map(|name| args.floats(name));
        y[plane * rows * m..][..rows * m].par_chunks_mut(m).enumerate().for_each(|(t, y)| {
            leave_out(y, &wanted);
            for (c, column) in wanted.iter().zip(&columns) {
                y[*c] = activation(kind, bias.map_or(0.0, |bias| f64::from(bias[*c])) + column[t]) as f32;
            }
        });
        first += rank;
    }
}
