//! Layer norm, token shift and lerps in one: `y[p][t] = n[t] + (n[t-1] - n[t]) * mix[p]` with `n = layer_norm(x)`.

use super::{OpKernels, any, moments, row_units, shift_store, unit_domain};
use crate::source::wgsl;
use crate::{Args, Feature, Site, Variant, refuse_if, segments};

pub(super) static OP: OpKernels = OpKernels {
    name: "norm_shift",
    variants: &[
        Variant {
            op: "norm_shift",
            name: "slices",
            wgsl: wgsl!("norm_shift/slices.wgsl"),
            needs: &[Feature::Subgroups],
            // By bucket: a plan's choice must serve every site of its class.
            accepts: |site, p| {
                refuse_if(site.rows > 64, "that many rows keep a device busy as they are")?;
                refuse_if(p.number("SLICE") > p.number("WG") * 4, "a slice needs an invocation for every four columns")
            },
            units: |site, p| u64::from(site.rows) * u64::from(site.k.div_ceil(p.number("SLICE"))),
        },
        Variant {
            op: "norm_shift",
            name: "workgroup",
            wgsl: wgsl!("norm_shift/workgroup.wgsl"),
            needs: &[],
            accepts: any,
            units: row_units,
        },
    ],
    reference,
    flops: |site| 20 * u64::from(site.rows) * u64::from(site.m),
    tolerance: super::NORM,
    domain: unit_domain,
};

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let old = args.state().to_vec();
    let normed = mixed(site, args, &old, y);
    shift_store::store(site, args, &normed, site.k as usize);
}

/// Fills the planes of y with the columns of the normed rows, mixed with those of the rows before; returns the normed rows.
pub(super) fn mixed(site: &Site, args: &Args<'_>, state: &[f32], y: &mut [f32]) -> Vec<f32> {
    let (x, scale, bias, mix) = (args.floats("x"), args.floats("scale"), args.floats("bias"), args.floats("mix"));
    let k = site.k as usize;
    let plane_len = site.rows as usize * k;
    let norm = |t: usize| -> Vec<f64> {
        let row = &x[t * k..][..k];
        let (mean, deviation) = moments(row, site.eps());
        let normed = |c: usize| (f64::from(row[c]) - mean) * deviation * f64::from(scale[c]) + f64::from(bias[c]);
        (0..k).map(normed).collect()
    };
    let mut rows = vec![0.0; plane_len];
    for segment in segments(args.indices("segments")) {
        let mut before: Vec<f64> = state[segment.slot * k..][..k].iter().map(|s| f64::from(*s)).collect();
        for t in segment.first..segment.first + segment.len {
            let own = norm(t);
            for (plane, mix) in mix.chunks_exact(k).enumerate() {
                for c in 0..k {
                    y[plane * plane_len + t * k + c] = (own[c] + (before[c] - own[c]) * f64::from(mix[c])) as f32;
                }
            }
            rows[t * k..][..k].iter_mut().zip(&own).for_each(|(row, own)| *row = *own as f32);
            before = own;
        }
    }
    rows
}
