//! `y = (x - mean) / sqrt(var + eps) * scale + bias` over a row.

use super::OpKernels;
use super::maths::{NORM, moments, unit_domain};
use crate::{Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "layer_norm",
    folder: "layer_norm",
    reference,
    definition: include_str!("layer_norm.rs"),
    flops: |instance| 8 * instance.output_len() as u64,
    tolerance: NORM,
    domain: unit_domain,
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let (x, scale, bias) = (args.floats("x"), args.floats("scale"), args.floats("bias"));
    let m = instance.m as usize;
    for (row, out) in x.chunks_exact(m).zip(y.chunks_exact_mut(m)) {
        let (mean, deviation) = moments(row, instance.eps());
        for c in 0..m {
            let normed = (f64::from(row[c]) - mean) * deviation;
            out[c] = (normed * f64::from(scale[c]) + f64::from(bias[c])) as f32;
        }
    }
}
