//! `y = f(x)`

use super::OpKernels;
use super::maths::{ELEMENTWISE, activation, unit_domain};
use crate::{Args, Instance};
use wgoose_graph::Op;

pub(super) static OP: OpKernels = OpKernels {
    name: "activate",
    folder: "activate",
    reference,
    definition: include_str!("activate.rs"),
    flops: |instance| 4 * instance.output_len() as u64,
    tolerance: ELEMENTWISE,
    domain: unit_domain,
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let (Op::Activate { activation: kind }, x) = (instance.op, args.floats("x")) else { return };
    for i in 0..y.len() {
        y[i] = activation(kind, f64::from(x[i])) as f32;
    }
}
