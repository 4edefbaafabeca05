//! The output of the recurrence's heads, each token for itself: group norm, bonus of the blended values and updated
//! keys, gate. It is defined as these ops, one after another.

use super::maths::NORM;
use super::wkv_heads::{make, values_and_keys};
use super::{Domain, OpKernels, bonus, group_norm, mul};
use crate::{Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "head_output",
    folder: "head_output",
    reference,
    definition: include_str!("head_output.rs"),
    flops: |instance| 24 * instance.output_len() as u64,
    // The norm, and the sum of the bonus.
    tolerance: |instance| 2.0 * NORM(instance),
    domain: |operand| match operand {
        "a" | "gate" => Domain::Within(0.0, 1.0),
        _ => Domain::Activations(1.0),
    },
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let [x, r, g, r_k, scale, bias] = ["x", "r", "g", "r_k", "scale", "bias"].map(|name| args.floats(name));
    let [v, k] = values_and_keys(instance, args);
    let normed = make(&group_norm::OP, instance, &[("x", x), ("scale", scale), ("bias", bias)]);
    let heads = make(&bonus::OP, instance, &[("x", &normed), ("r", r), ("k", &k), ("v", &v), ("r_k", r_k)]);
    y.copy_from_slice(&make(&mul::OP, instance, &[("a", &heads), ("b", g)]));
}
