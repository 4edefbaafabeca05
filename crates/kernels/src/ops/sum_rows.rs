//! `y[s] = sum of x[t]` over the tokens t of segment s: a mean over positions, but for the division by their number.

use super::{OpKernels, any, unit_domain};
use crate::source::wgsl;
use crate::{Args, Site, Variant, segments};

pub(super) static OP: OpKernels = OpKernels {
    name: "sum_rows",
    variants: &[Variant {
        op: "sum_rows",
        name: "columns",
        wgsl: wgsl!("sum_rows/columns.wgsl"),
        needs: &[],
        accepts: any,
        units: |site, p| u64::from(site.rows) * u64::from(site.m.div_ceil(p.number("COLS"))),
    }],
    reference,
    flops: |site| site.input("x").map_or(0, |x| u64::from(x.rows) * u64::from(x.cols)),
    tolerance: super::NORM,
    domain: unit_domain,
};

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let (x, m) = (args.floats("x"), site.m as usize);
    for (segment, out) in segments(args.indices("segments")).zip(y.chunks_exact_mut(m)) {
        for (c, out) in out.iter_mut().enumerate() {
            let rows = segment.first..segment.first + segment.len;
            *out = rows.map(|t| f64::from(x[t * m + c])).sum::<f64>() as f32;
        }
    }
}
