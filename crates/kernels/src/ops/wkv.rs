//! The recurrence of RWKV-7, per head, with the state S as [value][key]:
//! `S = S diag(decay) - (S kk)(kk * a)^T + v k^T`, `y = S r`.

use super::OpKernels;
use crate::{Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "wkv",
    folder: "wkv",
    reference,
    // Per element of the state: decay, removal (2), write (2), read (2), and the projection on kk (2).
    flops: |instance| 9 * u64::from(instance.rows) * u64::from(instance.m) * u64::from(instance.head_size),
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

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let [r, decay, k, v, kk, a] = ["r", "decay", "k", "v", "kk", "a"].map(|name| args.floats(name));
    let (n, m, heads) = (instance.head_size as usize, instance.m as usize, instance.heads as usize);
    for segment in args.segments() {
        for head in 0..heads {
            let home = (segment.slot as usize * heads + head) * n * n;
            let mut s: Vec<f64> = args.state()[home..home + n * n].iter().map(|s| f64::from(*s)).collect();
            for t in segment.tokens() {
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
