//! `y = v + (v_first - v) * gate`: how far a layer goes back to the values of layer 0.

use super::{OpKernels, any, element_units, unit_domain};
use crate::source::wgsl;
use crate::{Args, Site, Variant};

pub(super) static OP: OpKernels = OpKernels {
    name: "value_residual",
    variants: &[Variant {
        op: "value_residual",
        name: "elements",
        wgsl: wgsl!("value_residual/elements.wgsl"),
        needs: &[],
        accepts: any,
        units: element_units,
    }],
    reference,
    flops: |site| 3 * site.output_len() as u64,
    tolerance: super::ELEMENTWISE,
    domain: unit_domain,
};

fn reference(_: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let (v, first, gate) = (args.floats("v"), args.floats("v_first"), args.floats("gate"));
    for i in 0..y.len() {
        let (v, first, gate) = (f64::from(v[i]), f64::from(first[i]), f64::from(gate[i]));
        y[i] = (v + (first - v) * gate) as f32;
    }
}
