//! All that a time mix does between its projections and its output matrix: value residual, removal key, key update,
//! recurrence, group norm, bonus, gate. Its definition is that of those ops, one after another.

use super::{OpKernels, bonus, group_norm, key_update, mul, removal_key, value_residual, wkv};
use crate::source::wgsl;
use crate::{Arg, Args, Feature, Refusal, Site, Tunables, Variant, refuse_if};

pub(super) static OP: OpKernels = OpKernels {
    name: "time_mix_core",
    variants: &[
        Variant {
            op: "time_mix_core",
            name: "subgroup",
            wgsl: wgsl!("time_mix_core/subgroup.wgsl"),
            needs: &[Feature::Subgroups],
            accepts,
            units,
        },
        Variant {
            op: "time_mix_core",
            name: "workgroup",
            wgsl: wgsl!("time_mix_core/workgroup.wgsl"),
            needs: &[],
            accepts,
            units,
        },
    ],
    reference,
    // The recurrence, and some 30 for each element of y.
    flops: |site| (wkv::OP.flops)(site) + 30 * site.output_len() as u64,
    // That of the recurrence, and of the norms before and behind it.
    tolerance: |site| (wkv::OP.tolerance)(site) + 2.0 * super::NORM(site),
    domain: |operand| match operand {
        "decay" | "a" => (wkv::OP.domain)(operand),
        "gate" => (0.0, 1.0),
        _ => (-1.0, 1.0),
    },
};

fn accepts(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    let split = p.number("SPLIT");
    refuse_if(
        !site.head_size.is_multiple_of(4 * split),
        "an invocation would have less than four columns of the state",
    )?;
    refuse_if(site.head_size * split > 1024, "a workgroup would have more than 1024 invocations")
}

fn units(site: &Site, _: &Tunables) -> u64 {
    u64::from(site.segments) * u64::from(site.heads)
}

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    /// What an op of the unfused form makes.
    fn make(op: &OpKernels, site: &Site, operands: &[(&'static str, &[f32])]) -> Vec<f32> {
        let mut own = Args::new();
        operands.iter().for_each(|(name, data)| own.insert(name, Arg::Floats(data)));
        let mut y = vec![f32::NAN; site.output_len()];
        (op.reference)(site, &mut own, &mut y);
        y
    }
    let [r, k, decay, a, g] = ["r", "k", "decay", "a", "g"].map(|name| args.floats(name));
    let [k_k, k_a, r_k, scale, bias] = ["k_k", "k_a", "r_k", "scale", "bias"].map(|name| args.floats(name));
    let blended = site.input("v_first").map(|_| {
        let [v, v_first, gate] = ["v", "v_first", "gate"].map(|name| args.floats(name));
        make(&value_residual::OP, site, &[("v", v), ("v_first", v_first), ("gate", gate)])
    });
    let v = blended.as_deref().unwrap_or_else(|| args.floats("v"));
    let kk = make(&removal_key::OP, site, &[("k", k), ("k_k", k_k)]);
    let k = make(&key_update::OP, site, &[("k", k), ("a", a), ("k_a", k_a)]);

    let segments = args.indices("segments");
    let mut own = Args::new();
    for (name, data) in [("r", r), ("decay", decay), ("k", &k), ("v", v), ("kk", &kk), ("a", a)] {
        own.insert(name, Arg::Floats(data));
    }
    own.insert("segments", Arg::Indices(segments));
    own.insert("state", Arg::State(args.state()));
    (wkv::OP.reference)(site, &mut own, y);
    drop(own);

    let normed = make(&group_norm::OP, site, &[("x", y), ("scale", scale), ("bias", bias)]);
    let heads = make(&bonus::OP, site, &[("x", &normed), ("r", r), ("k", &k), ("v", v), ("r_k", r_k)]);
    y.copy_from_slice(&make(&mul::OP, site, &[("a", &heads), ("b", g)]));
}
