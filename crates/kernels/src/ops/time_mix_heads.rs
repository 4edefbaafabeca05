//! The heads of a time mix from end to end: the second halves of the adapters, then all that `time_mix_core` does. Its
//! definition is that of `lora_up` and of `time_mix_core`, one after the other.

use super::maths::sum_tolerance;
use super::{Domain, OpKernels, lora_up, time_mix_core};
use crate::{Arg, Args, Instance};

pub(super) static OP: OpKernels = OpKernels {
    name: "time_mix_heads",
    folder: "time_mix_heads",
    reference,
    definition: include_str!("time_mix_heads.rs"),
    flops: |instance| (lora_up::OP.flops)(instance) + (time_mix_core::OP.flops)(instance),
    tolerance: |instance| (time_mix_core::OP.tolerance)(instance) + sum_tolerance(instance.ranks.iter().sum()),
    domain: |operand| match operand {
        "x" => Domain::Within(-1.0, 1.0),
        "w2" | "a2" | "v2" | "g2" | "w0" | "a0" | "v0" => (lora_up::OP.domain)(operand),
        _ => (time_mix_core::OP.domain)(operand),
    },
};

fn reference(instance: &Instance, args: &mut Args<'_>, y: &mut [f32]) {
    let mut planes = vec![0.0; 4 * y.len()];
    (lora_up::OP.reference)(instance, args, &mut planes);
    let mut own = Args::new();
    for (name, plane) in ["decay", "a", "gate", "g"].into_iter().zip(planes.chunks_exact(y.len())) {
        own.insert(name, Arg::Floats(plane));
    }
    let value = instance.input("v_first").is_some();
    let names = ["r", "k", "v", "v_first", "k_k", "k_a", "r_k", "scale", "bias"];
    for name in names.into_iter().filter(|name| value || *name != "v_first") {
        own.insert(name, Arg::Floats(args.floats(name)));
    }
    own.insert("segments", Arg::Segments(args.segments()));
    own.insert("state", Arg::State(args.state()));
    (time_mix_core::OP.reference)(instance, &mut own, y);
}
