//! Norm over the N channels of each head, then scale and bias per channel.

use super::{OpKernels, any, head_units, moments, unit_domain};
use crate::source::wgsl;
use crate::{Args, Site, Variant};

pub(super) static OP: OpKernels = OpKernels {
    name: "group_norm",
    variants: &[Variant {
        op: "group_norm",
        name: "heads",
        wgsl: wgsl!("group_norm/heads.wgsl"),
        needs: &[],
        accepts: any,
        units: head_units,
    }],
    reference,
    flops: |site| 8 * site.output_len() as u64,
    tolerance: super::NORM,
    domain: unit_domain,
};

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let (x, scale, bias) = (args.floats("x"), args.floats("scale"), args.floats("bias"));
    let (n, m) = (site.head_size as usize, site.m as usize);
    for (head, out) in y.chunks_exact_mut(n).enumerate() {
        let row = &x[head * n..][..n];
        let (mean, deviation) = moments(row, site.eps());
        for c in 0..n {
            let at = (head * n + c) % m;
            let normed = (f64::from(row[c]) - mean) * deviation;
            out[c] = (normed * f64::from(scale[at]) + f64::from(bias[at])) as f32;
        }
    }
}
