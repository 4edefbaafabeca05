//! `y[r] = x[rows[r]]`

use super::OpKernels;
use super::maths::{ELEMENTWISE, unit_domain};
use crate::{Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "select_rows",
    folder: "select_rows",
    reference,
    definition: include_str!("select_rows.rs"),
    flops: |_| 0,
    tolerance: ELEMENTWISE,
    domain: unit_domain,
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let (x, rows, m) = (args.floats("x"), args.indices("rows"), instance.m as usize);
    for (out, row) in y.chunks_exact_mut(m).zip(rows) {
        out.copy_from_slice(&x[*row as usize * m..][..m]);
    }
}
