//! `y[p] = x + dx * mix[p]` for each plane p.

use super::OpKernels;
use super::maths::{ELEMENTWISE, unit_domain};
use crate::{Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "lerp",
    folder: "lerp",
    reference,
    definition: include_str!("lerp.rs"),
    flops: |instance| 2 * instance.output_len() as u64,
    tolerance: ELEMENTWISE,
    domain: unit_domain,
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let (x, dx, mix, m) = (args.floats("x"), args.floats("dx"), args.floats("mix"), instance.m as usize);
    for (plane, out) in y.chunks_exact_mut(x.len()).enumerate() {
        for i in 0..x.len() {
            let mix = f64::from(mix[plane * m + i % m]);
            out[i] = (f64::from(x[i]) + f64::from(dx[i]) * mix) as f32;
        }
    }
}
