//! `y = (x - mean) / sqrt(var + eps) * scale + bias` over a row.

use super::{OpKernels, any, moments, row_units, unit_domain};
use crate::source::wgsl;
use crate::{Args, Feature, Site, Variant};

pub(super) static OP: OpKernels = OpKernels {
    name: "layer_norm",
    variants: &[
        Variant {
            op: "layer_norm",
            name: "subgroup",
            wgsl: wgsl!("layer_norm/subgroup.wgsl"),
            needs: &[Feature::Subgroups],
            accepts: any,
            units: row_units,
        },
        Variant {
            op: "layer_norm",
            name: "workgroup",
            wgsl: wgsl!("layer_norm/workgroup.wgsl"),
            needs: &[],
            accepts: any,
            units: row_units,
        },
    ],
    reference,
    flops: |site| 8 * site.output_len() as u64,
    tolerance: super::NORM,
    domain: unit_domain,
};

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let (x, scale, bias) = (args.floats("x"), args.floats("scale"), args.floats("bias"));
    let m = site.m as usize;
    for (row, out) in x.chunks_exact(m).zip(y.chunks_exact_mut(m)) {
        let (mean, deviation) = moments(row, site.eps());
        for c in 0..m {
            let normed = (f64::from(row[c]) - mean) * deviation;
            out[c] = (normed * f64::from(scale[c]) + f64::from(bias[c])) as f32;
        }
    }
}
