//! Layer norm, token shift, six lerps and the products of `project` in one: the planes of `project`, and the normed
//! row.

use super::maths::{normed_domain, normed_tolerance};
use super::{OpKernels, norm_shift, project};
use crate::{Arg, Args, Instance};
use wgoose_graph::Op;

pub(super) static OP: OpKernels = OpKernels {
    name: "norm_project",
    folder: "norm_project",
    reference,
    definition: include_str!("norm_project.rs"),
    flops: |instance| (project::OP.flops)(instance) + 20 * u64::from(instance.rows) * u64::from(instance.k),
    tolerance: normed_tolerance,
    domain: normed_domain,
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let Op::NormProject { value, .. } = instance.op else { return };
    let plane = instance.rows as usize * instance.k as usize;
    let mut x = vec![0.0; 6 * plane];
    let rows = norm_shift::mixed(instance, args, args.floats("state"), &mut x);
    let (products, normed) = y.split_at_mut(4 * plane);
    normed.copy_from_slice(&rows);
    let mut own = Args::new();
    own.insert("x", Arg::Floats(&x));
    for name in ["w_r", "w_k", "w_v", "w1", "a1", "v1", "g1"] {
        if let Some(matrix) = args.matrix(name) {
            own.insert(name, Arg::Matrix(matrix));
        }
    }
    (project::OP.reference)(&Instance { op: Op::Project { value }, ..instance.clone() }, &mut own, products);
}
