//! Norm over the N channels of each head, then scale and bias per channel.

use super::OpKernels;
use super::maths::{NORM, moments, unit_domain};
use crate::{Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "group_norm",
    folder: "group_norm",
    reference,
    definition: include_str!("group_norm.rs"),
    flops: |instance| 8 * instance.output_len() as u64,
    tolerance: NORM,
    domain: unit_domain,
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let (x, scale, bias) = (args.floats("x"), args.floats("scale"), args.floats("bias"));
    let (n, m) = (instance.head_size as usize, instance.m as usize);
    for (head, out) in y.chunks_exact_mut(n).enumerate() {
        let row = &x[head * n..][..n];
        let (mean, deviation) = moments(row, instance.eps());
        for c in 0..n {
            let at = (head * n + c) % m;
            let normed = (f64::from(row[c]) - mean) * deviation;
            out[c] = (normed * f64::from(scale[at]) + f64::from(bias[at])) as f32;
        }
    }
}
