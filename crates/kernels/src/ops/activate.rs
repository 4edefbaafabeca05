//! `y = f(x)`

use super::{OpKernels, activation, any, element_units, unit_domain};
use crate::source::wgsl;
use crate::{Args, Site, Variant};
use wgoose_graph::Op;

pub(super) static OP: OpKernels = OpKernels {
    name: "activate",
    variants: &[Variant {
        op: "activate",
        name: "elements",
        wgsl: wgsl!("activate/elements.wgsl"),
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
    let (Op::Activate { activation: kind }, x) = (site.op, args.floats("x")) else { return };
    for i in 0..y.len() {
        y[i] = activation(kind, f64::from(x[i])) as f32;
    }
}
