//! `y = x + (sum over the head of r * k * r_k) * v`: what the current token adds without passing through the state.

use super::OpKernels;
use super::maths::{NORM, unit_domain};
use crate::{Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "bonus",
    folder: "bonus",
    reference,
    definition: include_str!("bonus.rs"),
    flops: |instance| 5 * instance.output_len() as u64,
    tolerance: NORM,
    domain: unit_domain,
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let (x, r, k, v) = (args.floats("x"), args.floats("r"), args.floats("k"), args.floats("v"));
    let r_k = args.floats("r_k");
    let (n, m) = (instance.head_size as usize, instance.m as usize);
    for (head, out) in y.chunks_exact_mut(n).enumerate() {
        let at = head * n;
        let term = |c: usize| f64::from(r[at + c]) * f64::from(k[at + c]) * f64::from(r_k[(at + c) % m]);
        let strength: f64 = (0..n).map(term).sum();
        for c in 0..n {
            out[c] = (f64::from(x[at + c]) + strength * f64::from(v[at + c])) as f32;
        }
    }
}
