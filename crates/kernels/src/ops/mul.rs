//! `y = a * b`

use super::OpKernels;
use super::maths::{ELEMENTWISE, unit_domain};
use crate::{Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "mul",
    folder: "mul",
    reference,
    definition: include_str!("mul.rs"),
    flops: |instance| instance.output_len() as u64,
    tolerance: ELEMENTWISE,
    domain: unit_domain,
};

fn reference(_: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let (a, b) = (args.floats("a"), args.floats("b"));
    for i in 0..y.len() {
        y[i] = a[i] * b[i];
    }
}
