//! The heads of a time mix from end to end: the second halves of the adapters, then all that `time_mix_core` does. Its
//! definition is that of `lora_up` and of `time_mix_core`, one after the other.

use super::{OpKernels, any, lora_up, sum_tolerance, time_mix_core};
use crate::source::wgsl;
use crate::{Arg, Args, Feature, Refusal, Site, Tunables, Variant, refuse_if};

pub(super) static OP: OpKernels = OpKernels {
    name: "time_mix_heads",
    variants: &[
        Variant {
            op: "time_mix_heads",
            name: "subgroup",
            wgsl: wgsl!("time_mix_heads/subgroup.wgsl"),
            needs: &[Feature::Subgroups],
            accepts,
            units,
        },
        Variant {
            op: "time_mix_heads",
            name: "plain",
            wgsl: wgsl!("time_mix_heads/plain.wgsl"),
            needs: &[],
            accepts: any,
            units,
        },
    ],
    reference,
    flops: |site| (lora_up::OP.flops)(site) + (time_mix_core::OP.flops)(site),
    tolerance: |site| (time_mix_core::OP.tolerance)(site) + sum_tolerance(site.ranks.iter().sum()),
    domain: |operand| match operand {
        "x" => (-1.0, 1.0),
        "w2" | "a2" | "v2" | "g2" | "w0" | "a0" | "v0" => (lora_up::OP.domain)(operand),
        _ => (time_mix_core::OP.domain)(operand),
    },
};

fn accepts(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    lora_up::has_eights_of_floats(site)?;
    refuse_if(!site.head_size.is_power_of_two(), "the size of a head must be a power of two")?;
    let (invocations, lanes) = (p.number("WG"), p.number("LANES"));
    refuse_if(invocations < site.head_size, "fewer invocations than channels")?;
    let most = lanes.min(site.head_size / 4);
    refuse_if(2 * most * site.head_size <= invocations && lanes == most, "most invocations would have no channel")
}

fn units(site: &Site, _: &Tunables) -> u64 {
    u64::from(site.segments) * u64::from(site.heads)
}

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let mut planes = vec![0.0; 4 * y.len()];
    (lora_up::OP.reference)(site, args, &mut planes);
    let mut own = Args::new();
    for (name, plane) in ["decay", "a", "gate", "g"].into_iter().zip(planes.chunks_exact(y.len())) {
        own.insert(name, Arg::Floats(plane));
    }
    let value = site.input("v_first").is_some();
    let names = ["r", "k", "v", "v_first", "k_k", "k_a", "r_k", "scale", "bias"];
    for name in names.into_iter().filter(|name| value || *name != "v_first") {
        own.insert(name, Arg::Floats(args.floats(name)));
    }
    own.insert("segments", Arg::Indices(args.indices("segments")));
    own.insert("state", Arg::State(args.state()));
    (time_mix_core::OP.reference)(site, &mut own, y);
}
