//! `y[s] = sum of x[t]` over the tokens t of segment s: a mean over positions, but for the division by their number.

use super::OpKernels;
use super::maths::{NORM, unit_domain};
use crate::{Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "sum_rows",
    folder: "sum_rows",
    reference,
    definition: include_str!("sum_rows.rs"),
    flops: |instance| instance.input("x").map_or(0, |x| u64::from(x.rows) * u64::from(x.cols)),
    tolerance: NORM,
    domain: unit_domain,
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let (x, m) = (args.floats("x"), instance.m as usize);
    for (segment, out) in args.segments().iter().zip(y.chunks_exact_mut(m)) {
        for (c, out) in out.iter_mut().enumerate() {
            let rows = segment.tokens();
            *out = rows.map(|t| f64::from(x[t * m + c])).sum::<f64>() as f32;
        }
    }
}
