//! The state takes the first columns of each segment's last row: what token shift begins with next time.

use super::{OpKernels, any, unit_domain};
use crate::source::wgsl;
use crate::{Args, Site, Variant, segments};

pub(super) static OP: OpKernels = OpKernels {
    name: "shift_store",
    variants: &[Variant {
        op: "shift_store",
        name: "elements",
        wgsl: wgsl!("shift_store/elements.wgsl"),
        needs: &[],
        accepts: any,
        units: |site, p| (u64::from(site.segments) * u64::from(site.m)).div_ceil(u64::from(p.number("WG"))),
    }],
    reference,
    flops: |_| 0,
    // A copy.
    tolerance: |_| 0.0,
    domain: unit_domain,
};

fn reference(site: &Site, args: &mut Args<'_>, _: &mut [f32]) {
    store(site, args, args.floats("x"), site.k as usize);
}

/// The same for `x` with rows of `stride` columns.
pub(super) fn store(site: &Site, args: &mut Args<'_>, x: &[f32], stride: usize) {
    let m = site.m as usize;
    for segment in segments(args.indices("segments")) {
        let last = &x[(segment.first + segment.len - 1) * stride..][..m];
        args.state()[segment.slot * m..][..m].copy_from_slice(last);
    }
}
