//! Every product of the mixed inputs: planes `x_r w_r^T`, `x_k w_k^T`, `x_v w_v^T`, and what `lora_down` makes in the
//! first columns of the fourth, zeros behind it.

use super::{OpKernels, any, element_units, lora_down, matmul, sum_tolerance};
use crate::source::wgsl;
use crate::{Arg, Args, Feature, Site, Tunables, Variant};
use wgoose_graph::{Activation, Op};

pub(super) static OP: OpKernels = OpKernels {
    name: "project",
    variants: &[
        Variant {
            op: "project",
            name: "rows_subgroup",
            wgsl: wgsl!("project/rows_subgroup.wgsl"),
            needs: &[Feature::Subgroups],
            accepts: matmul::rows_accept,
            units,
        },
        Variant {
            op: "project",
            name: "rows_workgroup",
            wgsl: wgsl!("project/rows_workgroup.wgsl"),
            needs: &[],
            accepts: matmul::rows_accept,
            units,
        },
        Variant {
            op: "project",
            name: "naive",
            wgsl: wgsl!("project/naive.wgsl"),
            needs: &[],
            accepts: any,
            units: element_units,
        },
    ],
    reference,
    flops: |site| {
        let rows = 3 * site.m + site.ranks.iter().sum::<u32>();
        2 * u64::from(site.rows) * u64::from(site.k) * u64::from(rows)
    },
    tolerance: |site| sum_tolerance(site.k),
    domain: |operand| if operand == "x" { (-2.0, 2.0) } else { (-0.1, 0.1) },
};

/// The matrices in the order of their planes, and the plane of x that each reads.
const PRODUCTS: [(&str, usize); 3] = [("w_r", 0), ("w_k", 2), ("w_v", 3)];

/// Blocks of rows of each matrix, none with rows of two; then one that clears what no adapter fills.
fn units(site: &Site, p: &Tunables) -> u64 {
    let blocks = |rows: u32| u64::from(rows.div_ceil(p.number("ROWS")));
    let of_adapters: u64 = site.ranks.iter().map(|rank| blocks(*rank)).sum();
    (3 * blocks(site.m) + of_adapters + 1) * u64::from(site.rows.div_ceil(p.number("TOKENS")))
}

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let x = args.floats("x");
    let len = site.rows as usize * site.k as usize;
    let product = Site { op: Op::Matmul { activation: Activation::None }, ..site.clone() };
    let mut planes = y.chunks_exact_mut(site.rows as usize * site.m as usize);
    for ((name, plane), out) in PRODUCTS.into_iter().zip(&mut planes) {
        let Some(matrix) = args.matrix(name) else { continue };
        let mut own = Args::new();
        own.insert("x", Arg::Floats(&x[plane * len..][..len]));
        own.insert("w", Arg::Matrix(matrix));
        (matmul::OP.reference)(&product, &mut own, out);
    }
    if let Some(hidden) = planes.next() {
        hidden.fill(0.0);
        (lora_down::OP.reference)(site, args, hidden);
    }
}
