//! `y = f(x w^T)`, and `y = y + x w^T` in place.

use super::maths::{activation, dot, leave_out, sum_tolerance};
use super::{Domain, OpKernels};
use crate::{Args, Instance};
use rayon::prelude::*;
use wgoose_graph::{Activation, Op};

pub(super) static OP: OpKernels = OpKernels {
    name: "matmul",
    folder: "matmul",
    reference,
    definition: include_str!("matmul.rs"),
    flops: |instance| 2 * u64::from(instance.rows) * u64::from(instance.k) * u64::from(instance.shard_rows),
    tolerance: |instance| match instance.op {
        // Squaring doubles the relative error.
        Op::Matmul { activation: Activation::ReluSquared } => 2.0 * sum_tolerance(instance.k),
        _ => sum_tolerance(instance.k),
    },
    domain: |operand| if operand == "w" { Domain::Within(-0.1, 0.1) } else { Domain::Activations(2.0) },
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
    let wanted = w.wanted();
    let columns: Vec<Vec<f64>> = wanted.par_iter().map(|row| product(*row)).collect();
    y.par_chunks_mut(m).enumerate().for_each(|(t, y)| {
        let y = &mut y[first..][..w.rows()];
        let made: Vec<f32> = wanted
            .iter()
            .zip(&columns)
            .map(|(row, column)| {
                let sum = column[t];
                (if add { f64::from(y[*row]) + sum } else { activation(kind, sum) }) as f32
            })
            .collect();
        leave_out(y, &wanted);
        wanted.iter().zip(made).for_each(|(row, made)| y[*row] = made);
    });
}
