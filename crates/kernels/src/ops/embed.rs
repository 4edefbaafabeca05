//! `y[t] = table[tokens[t]]`

use super::OpKernels;
use super::maths::{ELEMENTWISE, unit_domain};
use crate::{Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "embed",
    folder: "embed",
    reference,
    definition: include_str!("embed.rs"),
    flops: |_| 0,
    tolerance: ELEMENTWISE,
    domain: unit_domain,
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let Some(table) = args.matrix("table") else { return };
    for (out, token) in y.chunks_exact_mut(instance.m as usize).zip(args.indices("tokens")) {
        table.row(*token as usize, out);
    }
}
