//! `y = f(x w^T)`, and `y = y + x w^T` in place.

use super::OpKernels;
use super::maths::{activation, dot, sum_tolerance};
use crate::{Args, Instance};
use rayon::prelude::*;
use wgoose_graph::{Activation, Op};

pub(super) static OP: OpKernels = OpKernels {
    name: "matmul",
    folder: "matmul",
    reference,
    flops: |instance| 2 * u64::from(instance.rows) * u64::from(instance.k) * u64::from(instance.shard_rows),
    tolerance: |instance| match instance.op {
        // Squaring doubles the relative error.
        Op::Matmul { activation: Activation::ReluSquared } => 2.0 * sum_tolerance(instance.k),
        _ => sum_tolerance(instance.k),
    },
    domain: |operand| if operand == "w" { (-0.1, 0.1) } else { (-2.0, 2.0) },
};

pub(super) static OP_ADD: OpKernels = OpKernels { name: "matmul_add", ..OP };

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let (x, Some(w)) = (args.floats("x"), args.matrix("w")) else { return };
    let (k, m, first) = (instance.k as usize, instance.m as usize, instance.first as usize);
    let kind = match instance.op {
        Op::Matmul { activation } => activation,
        _ => Activation::None,
    };
    let add = instance.op == Op::MatmulAdd;
    // Row by row of w, so that each is decoded once: columns[row][token].
    let product = |row: usize| -> Vec<f64> {
        let mut weights = vec![0.0; k];
        w.row(row, &mut weights);
        x.chunks_exact(k).map(|x| dot(x, &weights)).collect()
    };
    let columns: Vec<Vec<f64>> = (0..w.distinct()).into_par_iter().map(product).collect();
    y.par_chunks_mut(m).enumerate().for_each(|(t, y)| {
        for (out, column) in y[first..][..w.rows()].iter_mut().zip(columns.iter().cycle()) {
            let sum = column[t];
            *out = if add { f64::from(*out) + sum } else { activation(kind, sum) } as f32;
        }
    });
}
