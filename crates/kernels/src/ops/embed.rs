//! `y[t] = table[tokens[t]]`

use super::{OpKernels, any, element_units, unit_domain};
use crate::source::wgsl;
use crate::{Args, Site, Variant};

pub(super) static OP: OpKernels = OpKernels {
    name: "embed",
    variants: &[Variant {
        op: "embed",
        name: "elements",
        wgsl: wgsl!("embed/elements.wgsl"),
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
    let Some(table) = args.matrix("table") else { return };
    for (out, token) in y.chunks_exact_mut(site.m as usize).zip(args.indices("tokens")) {
        table.row(*token as usize, out);
    }
}
