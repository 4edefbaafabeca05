//! The recurrence of RWKV-7, per head, with the state S as [value][key]:
//! `S = S diag(decay) - (S kk)(kk * a)^T + v k^T`, `y = S r`.

use super::{Domain, OpKernels};
use crate::{Args, Instance};
use rayon::prelude::*;

pub(super) static OP: OpKernels = OpKernels {
    name: "wkv",
    folder: "wkv",
    reference,
    definition: include_str!("wkv.rs"),
    // Per element of the state: decay, removal (2), write (2), read (2), and the projection on kk (2).
    flops: |instance| 9 * u64::from(instance.rows) * u64::from(instance.m) * u64::from(instance.head_size),
    // Errors of the state add up over the tokens of a segment; decay keeps the sum bounded.
    tolerance: |_| 1e-4,
    domain: |operand| match operand {
        "decay" => Domain::Within(0.545, 0.999),
        "a" => Domain::Within(0.0, 1.0),
        // Normalised per head: entries near 1 / sqrt(64).
        "kk" => Domain::Within(-0.125, 0.125),
        _ => Domain::Activations(1.0),
    },
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let [r, decay, k, v, kk, a] = ["r", "decay", "k", "v", "kk", "a"].map(|name| args.floats(name));
    let (n, m, heads) = (instance.head_size as usize, instance.m as usize, instance.heads as usize);
    for segment in args.segments() {
        let run = |(head, state): (usize, &mut [f32])| -> Vec<f32> {
            let mut s: Vec<f64> = state.iter().map(|s| f64::from(*s)).collect();
            let mut out = Vec::with_capacity(segment.tokens().len() * n);
            for at in segment.tokens().map(|t| t * m + head * n) {
                let own = |operand: &[f32]| -> Vec<f64> { operand[at..][..n].iter().map(|x| f64::from(*x)).collect() };
                let [r, decay, k, v, kk, a] = [r, decay, k, v, kk, a].map(own);
                for (s, value) in s.chunks_exact_mut(n).zip(v) {
                    let removed: f64 = -(0..n).map(|j| s[j] * kk[j]).sum::<f64>();
                    let mut sum = 0.0;
                    for j in 0..n {
                        s[j] = s[j] * decay[j] + removed * (kk[j] * a[j]) + value * k[j];
                        sum += s[j] * r[j];
                    }
                    out.push(sum as f32);
                }
            }
            state.iter_mut().zip(s).for_each(|(state, s)| *state = s as f32);
            out
        };
        let state = &mut args.state()[segment.slot as usize * heads * n * n..][..heads * n * n];
        let outs: Vec<Vec<f32>> = state.par_chunks_exact_mut(n * n).enumerate().map(run).collect();
        for (head, out) in outs.iter().enumerate() {
            for (t, out) in segment.tokens().zip(out.chunks_exact(n)) {
                y[t * m + head * n..][..n].copy_from_slice(out);
            }
        }
    }
}
