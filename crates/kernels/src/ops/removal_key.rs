//! `y = normalise(k * k_k)` per head: what is removed from the state. L2 with `max(norm, 1e-12)`, in f32 on the GPU.

use super::{OpKernels, any, head_units, unit_domain};
use crate::source::wgsl;
use crate::{Args, Site, Variant};

pub(super) static OP: OpKernels = OpKernels {
    name: "removal_key",
    variants: &[Variant {
        op: "removal_key",
        name: "heads",
        wgsl: wgsl!("removal_key/heads.wgsl"),
        needs: &[],
        accepts: any,
        units: head_units,
    }],
    reference,
    flops: |site| 5 * site.output_len() as u64,
    tolerance: super::NORM,
    domain: unit_domain,
};

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let (k, k_k) = (args.floats("k"), args.floats("k_k"));
    let (n, m) = (site.head_size as usize, site.m as usize);
    for (head, out) in y.chunks_exact_mut(n).enumerate() {
        let key = |c: usize| f64::from(k[head * n + c]) * f64::from(k_k[(head * n + c) % m]);
        let norm = (0..n).map(|c| key(c).powi(2)).sum::<f64>().sqrt().max(1e-12);
        for c in 0..n {
            out[c] = (key(c) / norm) as f32;
        }
    }
}
