//! All that a time mix does between its projections and its output matrix: value residual, removal key, key update,
//! recurrence, group norm, bonus, gate. Its definition is that of those ops, one after another.

use super::maths::NORM;
use super::{OpKernels, bonus, group_norm, key_update, mul, removal_key, value_residual, wkv};
use crate::{Arg, Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "time_mix_core",
    folder: "time_mix_core",
    reference,
    // The recurrence, and some 30 for each element of y.
    flops: |instance| (wkv::OP.flops)(instance) + 30 * instance.output_len() as u64,
    // That of the recurrence, and of the norms before and behind it.
    tolerance: |instance| (wkv::OP.tolerance)(instance) + 2.0 * NORM(instance),
    domain: |operand| match operand {
        "decay" | "a" => (wkv::OP.domain)(operand),
        "gate" => (0.0, 1.0),
        _ => (-1.0, 1.0),
    },
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    /// What an op of the unfused form makes.
    fn make(op: &OpKernels, instance: &Instance, operands: &[(&'static str, &[f32])]) -> Vec<f32> {
        let mut own = Args::new();
        operands.iter().for_each(|(name, data)| own.insert(name, Arg::Floats(data)));
        let mut y = vec![f32::NAN; instance.output_len()];
        (op.reference)(instance, &mut own, &mut y);
        y
    }
    let [r, k, decay, a, g] = ["r", "k", "decay", "a", "g"].map(|name| args.floats(name));
    let [k_k, k_a, r_k, scale, bias] = ["k_k", "k_a", "r_k", "scale", "bias"].map(|name| args.floats(name));
    let blended = instance.input("v_first").map(|_| {
        let [v, v_first, gate] = ["v", "v_first", "gate"].map(|name| args.floats(name));
        make(&value_residual::OP, instance, &[("v", v), ("v_first", v_first), ("gate", gate)])
    });
    let v = blended.as_deref().unwrap_or_else(|| args.floats("v"));
    let kk = make(&removal_key::OP, instance, &[("k", k), ("k_k", k_k)]);
    let k = make(&key_update::OP, instance, &[("k", k), ("a", a), ("k_a", k_a)]);

    let segments = args.segments();
    let mut own = Args::new();
    for (name, data) in [("r", r), ("decay", decay), ("k", &k), ("v", v), ("kk", &kk), ("a", a)] {
        own.insert(name, Arg::Floats(data));
    }
    own.insert("segments", Arg::Segments(segments));
    own.insert("state", Arg::State(args.state()));
    (wkv::OP.reference)(instance, &mut own, y);
    drop(own);

    let normed = make(&group_norm::OP, instance, &[("x", y), ("scale", scale), ("bias", bias)]);
    let heads = make(&bonus::OP, instance, &[("x", &normed), ("r", r), ("k", &k), ("v", v), ("r_k", r_k)]);
    y.copy_from_slice(&make(&mul::OP, instance, &[("a", &heads), ("b", g)]));
}
