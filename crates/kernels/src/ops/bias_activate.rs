//! `y = f(x + bias)`

use super::{OpKernels, activation, any, element_units, unit_domain};
use crate::source::wgsl;
use crate::{Args, Site, Variant};
use wgoose_graph::Op;

pub(super) static OP: OpKernels = OpKernels {
    name: "bias_activate",
    variants: &[Variant {
        op: "bias_activate",
        name: "elements",
        wgsl: wgsl!("bias_activate/elements.wgsl"),
        needs: &[],
        accepts: any,
        units: element_units,
    }],
    reference,
    flops: |site| 5 * site.output_len() as u64,
    tolerance: super::ELEMENTWISE,
    domain: unit_domain,
};

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let (Op::BiasActivate { activation: kind }, x, bias) = (site.op, args.floats("x"), args.floats("bias")) else {
        return;
    };
    for i in 0..y.len() {
        y[i] = activation(kind, f64::from(x[i]) + f64::from(bias[i % site.m as usize])) as f32;
    }
}
