//! `y = f(x + bias)`

use super::OpKernels;
use super::maths::{ELEMENTWISE, activation, unit_domain};
use crate::{Args, Instance};
use wgoose_graph::Op;

pub(super) static OP: OpKernels = OpKernels {
    name: "bias_activate",
    folder: "bias_activate",
    reference,
    definition: include_str!("bias_activate.rs"),
    flops: |instance| 5 * instance.output_len() as u64,
    tolerance: ELEMENTWISE,
    domain: unit_domain,
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let (Op::BiasActivate { activation: kind }, x, bias) = (instance.op, args.floats("x"), args.floats("bias")) else {
        return;
    };
    for i in 0..y.len() {
        y[i] = activation(kind, f64::from(x[i]) + f64::from(bias[i % instance.m as usize])) as f32;
    }
}
