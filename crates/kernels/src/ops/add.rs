//! `y = a + b`

use super::{OpKernels, any, element_units, unit_domain};
use crate::source::wgsl;
use crate::{Args, Site, Variant};

pub(super) static OP: OpKernels = OpKernels {
    name: "add",
    variants: &[Variant {
        op: "add",
        name: "elements",
        wgsl: wgsl!("add/elements.wgsl"),
        needs: &[],
        accepts: any,
        units: element_units,
    }],
    reference,
    flops: |site| site.output_len() as u64,
    tolerance: super::ELEMENTWISE,
    domain: unit_domain,
};

fn reference(_: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let (a, b) = (args.floats("a"), args.floats("b"));
    for i in 0..y.len() {
        y[i] = a[i] + b[i];
    }
}
