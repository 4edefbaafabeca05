//! Layer norm, token shift and lerps in one: `y[p][t] = n[t] + (n[t-1] - n[t]) * mix[p]` with `n = layer_norm(x)`.

use super::maths::{NORM, moments, unit_domain};
use super::{OpKernels, shift_store};
use crate::{Args, Instance};
use rayon::prelude::*;

pub(super) static OP: OpKernels = OpKernels {
    name: "norm_shift",
    folder: "norm_shift",
    reference,
    definition: include_str!("norm_shift.rs"),
    flops: |instance| 20 * u64::from(instance.rows) * u64::from(instance.m),
    tolerance: NORM,
    domain: unit_domain,
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let old = args.state().to_vec();
    let normed = mixed(instance, args, &old, y);
    shift_store::store(instance, args, &normed, instance.k as usize);
}

/// Fills the planes of y with the columns of the normed rows, mixed with those of the rows before; returns the normed
/// rows.
pub(super) fn mixed(instance: &Instance, args: &Args<'_>, state: &[f32], y: &mut [f32]) -> Vec<f32> {
    let (x, scale, bias, mix) = (args.floats("x"), args.floats("scale"), args.floats("bias"), args.floats("mix"));
    let k = instance.k as usize;
    let plane_len = instance.rows as usize * k;
    let norm = |t: usize| -> Vec<f64> {
        let row = &x[t * k..][..k];
        let (mean, deviation) = moments(row, instance.eps());
        let normed = |c: usize| (f64::from(row[c]) - mean) * deviation * f64::from(scale[c]) + f64::from(bias[c]);
        (0..k).map(normed).collect()
    };
    let normed: Vec<Vec<f64>> = (0..instance.rows as usize).into_par_iter().map(norm).collect();
    for segment in args.segments() {
        let state: Vec<f64> = state[segment.slot as usize * k..][..k].iter().map(|s| f64::from(*s)).collect();
        let mut before = &state;
        for t in segment.tokens() {
            let own = &normed[t];
            for (plane, mix) in mix.chunks_exact(k).enumerate() {
                let y = &mut y[plane * plane_len + t * k..][..k];
                for c in 0..k {
                    y[c] = (own[c] + (before[c] - own[c]) * f64::from(mix[c])) as f32;
                }
            }
            before = own;
        }
    }
    normed.iter().flatten().map(|own| *own as f32).collect()
}
