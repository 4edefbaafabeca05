//! Layer norm, token shift, six lerps and the products of `project` in one: the planes of `project`, and the normed row.

use super::{OpKernels, any, norm_consumer, norm_shift, project};
use crate::source::wgsl;
use crate::{Arg, Args, Feature, Site, Variant};
use wgoose_graph::Op;

pub(super) static OP: OpKernels = OpKernels {
    name: "norm_project",
    variants: &[
        Variant {
            op: "norm_project",
            name: "dealt",
            wgsl: wgsl!("norm_project/dealt.wgsl"),
            needs: &[Feature::Subgroups],
            accepts: |site, p| norm_consumer::dealt_accept(site, p, "w_r"),
            units: norm_consumer::dealt_units,
        },
        Variant {
            op: "norm_project",
            name: "naive",
            wgsl: wgsl!("norm_project/naive.wgsl"),
            needs: &[],
            accepts: any,
            units: |site, p| u64::from(site.rows) * u64::from((5 * site.m).div_ceil(p.number("WG"))),
        },
        Variant {
            op: "norm_project",
            name: "dealt_int8",
            wgsl: wgsl!("norm_project/dealt_int8.wgsl"),
            needs: &[Feature::Subgroups],
            accepts: |site, p| {
                project::adapters_are_floats(site)?;
                norm_consumer::int8_accept(site, p, &["w_r", "w_k", "w_v"])
            },
            units: norm_consumer::dealt_units,
        },
        Variant {
            op: "norm_project",
            name: "dealt_blocks",
            wgsl: wgsl!("norm_project/dealt_blocks.wgsl"),
            needs: &[Feature::Subgroups],
            accepts: |site, p| {
                project::adapters_are_alike(site)?;
                norm_consumer::blocks_accept(site, p, &["w_r", "w_k", "w_v"])
            },
            units: norm_consumer::dealt_units,
        },
    ],
    reference,
    flops: |site| (project::OP.flops)(site) + 20 * u64::from(site.rows) * u64::from(site.k),
    tolerance: norm_consumer::tolerance,
    domain: norm_consumer::domain,
};

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let Op::NormProject { value, .. } = site.op else { return };
    let plane = site.rows as usize * site.k as usize;
    let mut x = vec![0.0; 6 * plane];
    let rows = norm_shift::mixed(site, args, args.floats("state"), &mut x);
    let (products, normed) = y.split_at_mut(4 * plane);
    normed.copy_from_slice(&rows);
    let mut own = Args::new();
    own.insert("x", Arg::Floats(&x));
    for name in ["w_r", "w_k", "w_v", "w1", "a1", "v1", "g1"] {
        if let Some(matrix) = args.matrix(name) {
            own.insert(name, Arg::Matrix(matrix));
        }
    }
    (project::OP.reference)(&Site { op: Op::Project { value }, ..site.clone() }, &mut own, products);
}
