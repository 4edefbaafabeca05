//! `y = v + (v_first - v) * gate`: how far a layer goes back to the values of layer 0.

use super::OpKernels;
use super::maths::{ELEMENTWISE, unit_domain};
use crate::{Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "value_residual",
    folder: "value_residual",
    reference,
    definition: include_str!("value_residual.rs"),
    flops: |instance| 3 * instance.output_len() as u64,
    tolerance: ELEMENTWISE,
    domain: unit_domain,
};

fn reference(_: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let (v, first, gate) = (args.floats("v"), args.floats("v_first"), args.floats("gate"));
    for i in 0..y.len() {
        let (v, first, gate) = (f64::from(v[i]), f64::from(first[i]), f64::from(gate[i]));
        y[i] = (v + (first - v) * gate) as f32;
    }
}
