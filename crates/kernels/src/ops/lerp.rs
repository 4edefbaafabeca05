//! `y[p] = x + dx * mix[p]` for each plane p.

use super::{OpKernels, any, unit_domain};
use crate::source::wgsl;
use crate::{Args, Site, Variant};

pub(super) static OP: OpKernels = OpKernels {
    name: "lerp",
    variants: &[Variant {
        op: "lerp",
        name: "elements",
        wgsl: wgsl!("lerp/elements.wgsl"),
        needs: &[],
        accepts: any,
        units: |site, p| (u64::from(site.rows) * u64::from(site.m)).div_ceil(u64::from(p.number("WG"))),
    }],
    reference,
    flops: |site| 2 * site.output_len() as u64,
    tolerance: super::ELEMENTWISE,
    domain: unit_domain,
};

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let (x, dx, mix, m) = (args.floats("x"), args.floats("dx"), args.floats("mix"), site.m as usize);
    for (plane, out) in y.chunks_exact_mut(x.len()).enumerate() {
        for i in 0..x.len() {
            let mix = f64::from(mix[plane * m + i % m]);
            out[i] = (f64::from(x[i]) + f64::from(dx[i]) * mix) as f32;
        }
    }
}
