//! `y[t] = x[t - 1] - x[t]`; the state precedes a segment, and takes the segment's last row.

use super::OpKernels;
use super::maths::{ELEMENTWISE, unit_domain};
use crate::{Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "token_shift",
    folder: "token_shift",
    reference,
    definition: include_str!("token_shift.rs"),
    flops: |instance| instance.output_len() as u64,
    tolerance: ELEMENTWISE,
    domain: unit_domain,
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let (x, m) = (args.floats("x"), instance.m as usize);
    for segment in args.segments() {
        let state = &mut args.state()[segment.slot as usize * m..][..m];
        for t in segment.tokens() {
            for c in 0..m {
                let before = if t == segment.tokens().start { state[c] } else { x[(t - 1) * m + c] };
                y[t * m + c] = before - x[t * m + c];
            }
        }
        state.copy_from_slice(&x[(segment.tokens().end - 1) * m..][..m]);
    }
}
