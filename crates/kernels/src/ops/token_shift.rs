//! `y[t] = x[t - 1] - x[t]`; before a segment stands the state, which takes the segment's last row.

use super::{OpKernels, any, element_units, unit_domain};
use crate::source::wgsl;
use crate::{Args, Site, Variant, segments};

pub(super) static OP: OpKernels = OpKernels {
    name: "token_shift",
    variants: &[Variant {
        op: "token_shift",
        name: "elements",
        wgsl: wgsl!("token_shift/elements.wgsl"),
        needs: &[],
        accepts: any,
        units: element_units,
    }],
    reference,
    flops: |site| site.output_len() as u64,
    tolerance: super::ELEMENTWISE,
    domain: unit_domain,
};

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let (x, m) = (args.floats("x"), site.m as usize);
    for segment in segments(args.indices("segments")) {
        let state = &mut args.state()[segment.slot * m..][..m];
        for t in segment.first..segment.first + segment.len {
            for c in 0..m {
                let before = if t == segment.first { state[c] } else { x[(t - 1) * m + c] };
                y[t * m + c] = before - x[t * m + c];
            }
        }
        state.copy_from_slice(&x[(segment.first + segment.len - 1) * m..][..m]);
    }
}
