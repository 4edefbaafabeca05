//! `y = k * (1 + (a - 1) * k_a)`: the key that is written, scaled by the in-context learning rate.

use super::OpKernels;
use super::maths::{ELEMENTWISE, unit_domain};
use crate::{Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "key_update",
    folder: "key_update",
    reference,
    definition: include_str!("key_update.rs"),
    flops: |instance| 4 * instance.output_len() as u64,
    tolerance: ELEMENTWISE,
    domain: unit_domain,
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let (k, a, k_a) = (args.floats("k"), args.floats("a"), args.floats("k_a"));
    for i in 0..y.len() {
        let (k, a, k_a) = (f64::from(k[i]), f64::from(a[i]), f64::from(k_a[i % instance.m as usize]));
        y[i] = (k * (1.0 + (a - 1.0) * k_a)) as f32;
    }
}
