//! `y = k * (1 + (a - 1) * k_a)`: the key that is written, scaled by the in-context learning rate.

use super::{OpKernels, any, element_units, unit_domain};
use crate::source::wgsl;
use crate::{Args, Site, Variant};

pub(super) static OP: OpKernels = OpKernels {
    name: "key_update",
    variants: &[Variant {
        op: "key_update",
        name: "elements",
        wgsl: wgsl!("key_update/elements.wgsl"),
        needs: &[],
        accepts: any,
        units: element_units,
    }],
    reference,
    flops: |site| 4 * site.output_len() as u64,
    tolerance: super::ELEMENTWISE,
    domain: unit_domain,
};

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let (k, a, k_a) = (args.floats("k"), args.floats("a"), args.floats("k_a"));
    for i in 0..y.len() {
        let (k, a, k_a) = (f64::from(k[i]), f64::from(a[i]), f64::from(k_a[i % site.m as usize]));
        y[i] = (k * (1.0 + (a - 1.0) * k_a)) as f32;
    }
}
