//! The first halves of the adapters, side by side: `[tanh(x_w w1^T), x_a a1^T, x_v v1^T, sigmoid(x_g g1^T)]`.

use super::{OpKernels, activation, any, dot, pieces, sum_tolerance};
use crate::source::wgsl;
use crate::{Args, Feature, Site, Tunables, Variant, refuse_if};
use wgoose_graph::Activation;

pub(super) static OP: OpKernels = OpKernels {
    name: "lora_down",
    variants: &[
        Variant {
            op: "lora_down",
            name: "rows",
            wgsl: wgsl!("lora_down/rows.wgsl"),
            needs: &[Feature::Subgroups],
            accepts: |site, p| {
                refuse_if(!site.k.is_multiple_of(32), "k must be a multiple of 32")?;
                pieces::tokens_are_there(site, p.number("TOKENS"))
            },
            units: |site, p| u64::from(site.m) * u64::from(site.rows.div_ceil(p.number("TOKENS"))),
        },
        Variant {
            op: "lora_down",
            name: "subgroup",
            wgsl: wgsl!("lora_down/subgroup.wgsl"),
            needs: &[Feature::Subgroups],
            accepts: any,
            units,
        },
        Variant {
            op: "lora_down",
            name: "workgroup",
            wgsl: wgsl!("lora_down/workgroup.wgsl"),
            needs: &[],
            accepts: any,
            units,
        },
    ],
    reference,
    flops: |site| 2 * u64::from(site.rows) * u64::from(site.k) * u64::from(site.m),
    tolerance: |site| sum_tolerance(site.k),
    domain: |operand| if operand == "x" { (-2.0, 2.0) } else { (-0.1, 0.1) },
};

/// The adapters in the order of their hidden columns: matrix, plane of x, activation.
const ADAPTERS: [(&str, usize, Activation); 4] = [
    ("w1", 1, Activation::Tanh),
    ("a1", 4, Activation::None),
    ("v1", 3, Activation::None),
    ("g1", 5, Activation::Sigmoid),
];

fn units(site: &Site, _: &Tunables) -> u64 {
    u64::from(site.rows) * u64::from(site.m)
}

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let x = args.floats("x");
    let (rows, k, m) = (site.rows as usize, site.k as usize, site.m as usize);
    let mut first = 0;
    for (name, plane, kind) in ADAPTERS {
        let Some(matrix) = args.matrix(name) else { continue };
        let mut weights = vec![0.0; k];
        for row in 0..matrix.rows() {
            matrix.row(row, &mut weights);
            for t in 0..rows {
                let sum = dot(&x[(plane * rows + t) * k..][..k], &weights);
                y[t * m + first + row] = activation(kind, sum) as f32;
            }
        }
        first += matrix.rows();
    }
}
