//! The state takes the first columns of each segment's last row: what token shift begins with next time.

use super::OpKernels;
use super::maths::unit_domain;
use crate::{Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "shift_store",
    folder: "shift_store",
    reference,
    definition: include_str!("shift_store.rs"),
    flops: |_| 0,
    // A copy.
    tolerance: |_| 0.0,
    domain: unit_domain,
};

fn reference(instance: &Instance, args: &mut Args<'_>, _: &mut [f32]) {
    store(instance, args, args.floats("x"), instance.k as usize);
}

/// The same for `x` with rows of `stride` columns.
pub(super) fn store(instance: &Instance, args: &mut Args<'_>, x: &[f32], stride: usize) {
    let m = instance.m as usize;
    for segment in args.segments() {
        let last = &x[(segment.tokens().end - 1) * stride..][..m];
        args.state()[segment.slot as usize * m..][..m].copy_from_slice(last);
    }
}
