//! `y[r] = x[rows[r]]`

use super::{OpKernels, any, element_units, unit_domain};
use crate::source::wgsl;
use crate::{Args, Site, Variant};

pub(super) static OP: OpKernels = OpKernels {
    name: "select_rows",
    variants: &[Variant {
        op: "select_rows",
        name: "elements",
        wgsl: wgsl!("select_rows/elements.wgsl"),
        needs: &[],
        accepts: any,
        units: element_units,
    }],
    reference,
    flops: |_| 0,
    tolerance: super::ELEMENTWISE,
    domain: unit_domain,
};

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let (x, rows, m) = (args.floats("x"), args.indices("rows"), site.m as usize);
    for (out, row) in y.chunks_exact_mut(m).zip(rows) {
        out.copy_from_slice(&x[*row as usize * m..][..m]);
    }
}
