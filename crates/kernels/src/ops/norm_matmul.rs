//! Layer norm, token shift, lerp and product in one: a plane of products `f(x w^T)`, and one whose first columns are the
//! normed row.

use super::{OpKernels, any, matmul, norm_consumer, norm_shift};
use crate::source::wgsl;
use crate::{Arg, Args, Feature, Site, Variant};
use wgoose_graph::{Activation, Op};

pub(super) static OP: OpKernels = OpKernels {
    name: "norm_matmul",
    variants: &[
        Variant {
            op: "norm_matmul",
            name: "dealt",
            wgsl: wgsl!("norm_matmul/dealt.wgsl"),
            needs: &[Feature::Subgroups],
            accepts: |site, p| norm_consumer::dealt_accept(site, p, "w"),
            units: norm_consumer::dealt_units,
        },
        Variant {
            op: "norm_matmul",
            name: "naive",
            wgsl: wgsl!("norm_matmul/naive.wgsl"),
            needs: &[],
            accepts: any,
            units: |site, p| u64::from(site.rows) * u64::from(site.window.div_ceil(p.number("WG"))),
        },
        Variant {
            op: "norm_matmul",
            name: "dealt_int8",
            wgsl: wgsl!("norm_matmul/dealt_int8.wgsl"),
            needs: &[Feature::Subgroups],
            accepts: |site, p| norm_consumer::int8_accept(site, p, &["w"]),
            units: norm_consumer::dealt_units,
        },
        Variant {
            op: "norm_matmul",
            name: "dealt_blocks",
            wgsl: wgsl!("norm_matmul/dealt_blocks.wgsl"),
            needs: &[Feature::Subgroups],
            accepts: |site, p| norm_consumer::blocks_accept(site, p, &["w"]),
            units: norm_consumer::dealt_units,
        },
    ],
    reference,
    flops: |site| (matmul::OP.flops)(site) + 20 * u64::from(site.rows) * u64::from(site.k),
    tolerance: |site| match site.op {
        // Squaring doubles the relative error.
        Op::NormMatmul { activation: Activation::ReluSquared, .. } => 2.0 * norm_consumer::tolerance(site),
        _ => norm_consumer::tolerance(site),
    },
    domain: norm_consumer::domain,
};

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let Op::NormMatmul { activation, .. } = site.op else { return };
    let (k, m) = (site.k as usize, site.m as usize);
    let mut x = vec![0.0; site.rows as usize * k];
    let rows = norm_shift::mixed(site, args, args.floats("state"), &mut x);
    let (products, normed) = y.split_at_mut(site.rows as usize * m);
    for (own, row) in normed.chunks_exact_mut(m).zip(rows.chunks_exact(k)) {
        own[..k].copy_from_slice(row);
    }
    let product = Site { op: Op::Matmul { activation }, ..site.clone() };
    let mut own = Args::new();
    own.insert("x", Arg::Floats(&x));
    if let Some(w) = args.matrix("w") {
        own.insert("w", Arg::Matrix(w));
    }
    (matmul::OP.reference)(&product, &mut own, products);
}
