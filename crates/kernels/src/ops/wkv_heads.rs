//! The recurrence of a time mix, token after token: value residual, removal key, key update, recurrence. It is defined
//! as these ops, one after another.

use super::maths::NORM;
use super::{Domain, OpKernels, key_update, removal_key, value_residual, wkv};
use crate::{Arg, Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "wkv_heads",
    folder: "wkv_heads",
    reference,
    definition: include_str!("wkv_heads.rs"),
    // The recurrence, and some 12 for each element of y.
    flops: |instance| (wkv::OP.flops)(instance) + 12 * instance.output_len() as u64,
    // That of the recurrence, and of the norm before it.
    tolerance: |instance| (wkv::OP.tolerance)(instance) + NORM(instance),
    domain: |operand| match operand {
        "decay" | "a" => (wkv::OP.domain)(operand),
        "gate" => Domain::Within(0.0, 1.0),
        _ => Domain::Activations(1.0),
    },
};

/// What an op of the unfused form makes.
pub(super) fn make(op: &OpKernels, instance: &Instance, operands: &[(&'static str, &[f32])]) -> Vec<f32> {
    let mut own = Args::new();
    operands.iter().for_each(|(name, data)| own.insert(name, Arg::Floats(data)));
    let mut y = vec![f32::NAN; instance.output_len()];
    (op.reference)(instance, &mut own, &mut y);
    y
}

/// The values and keys that go into the state.
pub(super) fn values_and_keys(instance: &Instance, args: &Args<'_>) -> [Vec<f32>; 2] {
    let [v, k, a, k_a] = ["v", "k", "a", "k_a"].map(|name| args.floats(name));
    let values = match instance.input("v_first") {
        Some(_) => {
            let [v_first, gate] = ["v_first", "gate"].map(|name| args.floats(name));
            make(&value_residual::OP, instance, &[("v", v), ("v_first", v_first), ("gate", gate)])
        }
        None => v.to_vec(),
    };
    [values, make(&key_update::OP, instance, &[("k", k), ("a", a), ("k_a", k_a)])]
}

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let [values, keys] = values_and_keys(instance, args);
    let kk = make(&removal_key::OP, instance, &[("k", args.floats("k")), ("k_k", args.floats("k_k"))]);
    let mut own = Args::new();
    for name in ["r", "decay", "a"] {
        own.insert(name, Arg::Floats(args.floats(name)));
    }
    for (name, data) in [("k", &keys), ("v", &values), ("kk", &kk)] {
        own.insert(name, Arg::Floats(data));
    }
    own.insert("segments", Arg::Segments(args.segments()));
    own.insert("state", Arg::State(args.state()));
    (wkv::OP.reference)(instance, &mut own, y);
}
