//! All that a time mix does between its projections and its output matrix: value residual, removal key, key update,
//! recurrence, group norm, bonus, gate. Its definition is that of `wkv_heads` and of `head_output`, one after the
//! other.

use super::maths::NORM;
use super::{Domain, OpKernels, head_output, wkv, wkv_heads};
use crate::{Arg, Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "time_mix_core",
    folder: "time_mix_core",
    reference,
    definition: include_str!("time_mix_core.rs"),
    // The recurrence, and some 30 for each element of y.
    flops: |instance| (wkv::OP.flops)(instance) + 30 * instance.output_len() as u64,
    // That of the recurrence, and of the norms before and behind it.
    tolerance: |instance| (wkv::OP.tolerance)(instance) + 2.0 * NORM(instance),
    domain: |operand| match operand {
        "decay" | "a" => (wkv::OP.domain)(operand),
        "gate" => Domain::Within(0.0, 1.0),
        _ => Domain::Activations(1.0),
    },
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    (wkv_heads::OP.reference)(instance, args, y);
    let x = y.to_vec();
    let mut own = Args::new();
    own.insert("x", Arg::Floats(&x));
    let value = instance.input("v_first").is_some();
    let names = ["r", "k", "v", "v_first", "gate", "a", "g", "k_a", "r_k", "scale", "bias"];
    for name in names.into_iter().filter(|name| value || !["v_first", "gate"].contains(name)) {
        own.insert(name, Arg::Floats(args.floats(name)));
    }
    (head_output::OP.reference)(instance, &mut own, y);
}
