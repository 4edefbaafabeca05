//! Layer norm, token shift and lerps in one: `y[p][t] = n[t] + (n[t-1] - n[t]) * mix[p]` with `n = layer_norm(x)`.

use super::{OpKernels, any, moments, row_units, unit_domain};
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
    let (x, scale, bias, mix) = (args.floats("x"), args.floats("scale"), args.floats("bias"), args.floats("mix"));
    let m = site.m as usize;
    let plane_len = site.rows as usize * m;
    let norm = |t: usize| -> Vec<f64> {
        let row = &x[t * m..][..m];
        let (mean, deviation) = moments(row, site.eps());
        let normed = |c: usize| (f64::from(row[c]) - mean) * deviation * f64::from(scale[c]) + f64::from(bias[c]);
        (0..m).map(normed).collect()
    };
    for segment in segments(args.indices("segments")) {
        let state = &mut args.state()[segment.slot * m..][..m];
        let mut before: Vec<f64> = state.iter().map(|s| f64::from(*s)).collect();
        for t in segment.first..segment.first + segment.len {
            let own = norm(t);
            for plane in 0..site.planes as usize {
                for c in 0..m {
                    let mix = f64::from(mix[plane * m + c]);
                    y[plane * plane_len + t * m + c] = (own[c] + (before[c] - own[c]) * mix) as f32;
                }
            }
            before = own;
        }
        for c in 0..m {
            state[c] = before[c] as f32;
        }
    }
}
