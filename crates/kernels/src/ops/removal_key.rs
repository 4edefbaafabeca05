//! `y = normalise(k * k_k)` per head: what is removed from the state. L2 with `max(norm, 1e-12)`, in f32 on the GPU.

use super::OpKernels;
use super::maths::{NORM, unit_domain};
use crate::{Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "removal_key",
    folder: "removal_key",
    reference,
    definition: include_str!("removal_key.rs"),
    flops: |instance| 5 * instance.output_len() as u64,
    tolerance: NORM,
    domain: unit_domain,
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let (k, k_k) = (args.floats("k"), args.floats("k_k"));
    let (n, m) = (instance.head_size as usize, instance.m as usize);
    for (head, out) in y.chunks_exact_mut(n).enumerate() {
        let key = |c: usize| f64::from(k[head * n + c]) * f64::from(k_k[(head * n + c) % m]);
        let norm = (0..n).map(|c| key(c).powi(2)).sum::<f64>().sqrt().max(1e-12);
        for c in 0..n {
            out[c] = (key(c) / norm) as f32;
        }
    }
}
