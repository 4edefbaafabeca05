//! The recurrence of RWKV-7, per head, with the state S as [value][key]:
//! `S = S diag(decay) - (S kk)(kk * a)^T + v k^T`, `y = S r`.

use super::OpKernels;
use crate::source::wgsl;
use crate::{Args, Site, Variant, refuse_if, segments};

pub(super) static OP: OpKernels = OpKernels {
    name: "wkv",
    variants: &[Variant {
        op: "wkv",
        name: "rows",
        wgsl: wgsl!("wkv/rows.wgsl"),
        needs: &[],
        accepts: |site, p| {
            refuse_if(site.head_size * p.number("SPLIT") > 1024, "a workgroup would have more than 1024 invocations")
        },
        units: |site, _| u64::from(site.segments) * u64::from(site.heads),
    }],
    reference,
    // Per element of the state: decay, removal (2), write (2), read (2), and the projection on kk (2).
    flops: |site| 9 * u64::from(site.rows) * u64::from(site.m) * u64::from(site.head_size),
    // Errors of the state add up over the tokens of a segment; decay keeps the sum bounded.
    tolerance: |_| 1e-4,
    domain: |operand| match operand {
        "decay" => (0.545, 0.999),
        "a" => (0.0, 1.0),
        // Normalised per head: entries near 1 / sqrt(64).
        "kk" => (-0.125, 0.125),
        _ => (-1.0, 1.0),
    },
};

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let [r, decay, k, v, kk, a] = ["r", "decay", "k", "v", "kk", "a"].map(|name| args.floats(name));
    let (n, m, heads) = (site.head_size as usize, site.m as usize, site.heads as usize);
    for segment in segments(args.indices("segments")) {
        for head in 0..heads {
            let home = (segment.slot * heads + head) * n * n;
            let mut s: Vec<f64> = args.state()[home..home + n * n].iter().map(|s| f64::from(*s)).collect();
            for t in segment.first..segment.first + segment.len {
                let at = t * m + head * n;
                for row in 0..n {
                    let s = &mut s[row * n..][..n];
                    let removed: f64 = -(0..n).map(|j| s[j] * f64::from(kk[at + j])).sum::<f64>();
                    let value = f64::from(v[at + row]);
                    let mut out = 0.0;
                    for j in 0..n {
                        let b = f64::from(kk[at + j]) * f64::from(a[at + j]);
                        s[j] = s[j] * f64::from(decay[at + j]) + removed * b + value * f64::from(k[at + j]);
                        out += s[j] * f64::from(r[at + j]);
                    }
                    y[at + row] = out as f32;
                }
            }
            for (state, s) in args.state()[home..home + n * n].iter_mut().zip(s) {
                *state = s as f32;
            }
        }
    }
}
