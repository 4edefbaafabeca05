//! What becomes of kernels as stages of a persistent step, read from its text, without a GPU.

#![allow(clippy::unwrap_used)] // a failed helper is a failed test

use std::collections::BTreeSet;
use wgoose_graph::{
    BatchShape, Format, Fusion, FusionSet, LayerWeight, LoraRanks, ModelShape, Weight, WeightClass, rewrite, rwkv7,
};
use wgoose_kernels::persistent::{Base, Form, Place, Pool, StagePart, merge};
use wgoose_kernels::{Access, Feature, Kernel, Limits, Site, Sources, ops};

fn limits() -> Limits {
    let features = BTreeSet::from([Feature::Subgroups, Feature::CoherentMemory]);
    Limits {
        workgroup_invocations: 1024,
        workgroup_memory: 48 << 10,
        storage_buffers: 64,
        features,
        min_subgroup: 32,
        ..Limits::webgpu()
    }
}

/// A kernel of an op of the second layer, as wide as that, where w_k has a format of its own.
fn kernel(op: &str, variant: &str, width: u32, w_k: Format) -> Kernel {
    let ranks = LoraRanks { decay: 64, iclr: 64, value: 32, gate: 64 };
    let shape = ModelShape { layers: 2, width: 1024, ffn: 4096, head_size: 64, vocab: 512, ranks };
    let mut graph = rwkv7::forward(&shape).unwrap();
    rewrite::apply(&mut graph, &FusionSet::from(Fusion::ALL)).unwrap();
    let batch = BatchShape { tokens: 1, segments: 1, outputs: 1 };
    let format = |w: Weight| match w {
        Weight::Layer(_, LayerWeight::Key) => w_k,
        _ if w.class() == WeightClass::Vector => Format::F32,
        _ => Format::F16,
    };
    let id = graph.op_ids().find(|id| graph.op(*id).op.name() == op && graph.op(*id).layer == Some(1)).unwrap();
    let site = Site::of(&graph, id, &batch, &format);
    let variant = ops::variants(op).iter().find(|v| v.name == variant).unwrap();
    let points = variant.points(&Sources::Embedded).unwrap();
    let kernels = points.iter().map(|p| Kernel::new(variant, &site, p, &limits(), &Sources::Embedded));
    let kernels: Vec<Kernel> = kernels.filter_map(Result::ok).collect();
    kernels.into_iter().find(|k| k.reflection.workgroup_size[0] == width).unwrap()
}

/// The text of kernels that need not wait for each other, merged for that many workgroups. All that they read as words of 16
/// bytes lies in one pool but for `apart`; the rest has pools of its own.
fn merged_all(kernels: &[&Kernel], apart: &str, workgroups: u32) -> String {
    let mut pools = vec![Pool { element: "vec4<u32>".to_owned(), is_written: false }];
    let mut parts = Vec::new();
    let mut columns = 0;
    for kernel in kernels {
        let mut places = Vec::new();
        for binding in &kernel.reflection.bindings {
            let Some(element) = binding.element.filter(|_| binding.access != Access::Uniform) else { continue };
            let is_written = binding.access == Access::ReadWrite;
            let mut pool = 0;
            if element.wgsl != "vec4<u32>" || is_written || binding.name == apart {
                pool = pools.len();
                pools.push(Pool { element: element.wgsl.to_owned(), is_written });
            }
            places.push((binding.number, Place { pool, base: Base::PerLayer(columns) }));
            columns += 1;
        }
        parts.push(StagePart { kernel, units: kernel.units, params: [1; 12], places, meets: parts.is_empty() });
    }
    let form = Form { columns, workgroups, threads: 512 };
    merge(&parts, &pools, form, &limits(), &Sources::Embedded).unwrap().wgsl
}

fn merged(kernel: &Kernel, apart: &str, workgroups: u32) -> String {
    merged_all(&[kernel], apart, workgroups)
}

fn main_of(text: &str) -> &str {
    &text[text.find("fn main(").unwrap()..]
}

#[test]
fn matrices_that_lie_together_share_their_code() {
    let stands = |text: &str, constant: &str| text.contains(&format!("const s0_{constant}: bool = true"));
    let same = kernel("norm_project", "dealt", 512, Format::F16);
    let text = merged(&same, "", 132);
    assert!(stands(&text, "TOGETHER") && text.contains("fn s0_w_r_of_any() -> u32 {"), "{text}");
    assert!(stands(&text, "ADAPTERS_TOGETHER") && text.contains("[s0_g1_of_any() + ("), "{text}");

    let text = merged(&same, "w_v", 132);
    assert!(!stands(&text, "TOGETHER") && stands(&text, "ADAPTERS_TOGETHER"), "w_v lies in another buffer");

    let other = kernel("norm_project", "dealt", 512, Format::BF16);
    let text = merged(&other, "", 132);
    assert!(!stands(&text, "TOGETHER") && stands(&text, "ADAPTERS_TOGETHER"), "w_k has another format");
}

#[test]
fn a_stage_waits_where_it_needs_the_others() {
    let kernel = kernel("norm_matmul", "dealt", 512, Format::F16);
    let units = u32::try_from(kernel.units).unwrap();
    let inside = "fn s0_others_done(lane: u32) -> u32 { return wait(lane); }";

    let text = merged(&kernel, "", units);
    assert!(text.contains(inside) && !main_of(&text).contains("wait(lane)"), "all workgroups wait in the stage");

    let text = merged(&kernel, "", units + 1);
    assert!(
        text.contains(inside) && main_of(&text).contains("} else {\n            wait(lane);"),
        "who has none waits too"
    );

    let text = merged(&kernel, "", units - 1);
    assert!(
        text.contains("fn s0_others_done(lane: u32) -> u32 { return 0u; }"),
        "a workgroup with several units may not wait in each"
    );
    assert_eq!(main_of(&text).matches("wait(lane);\n        storageBarrier();").count(), 1, "so all wait before");
}

#[test]
fn stages_that_need_not_wait_for_each_other_stand_side_by_side() {
    let narrow = kernel("shift_store", "elements", 256, Format::F16);
    let heads = kernel("time_mix_heads", "subgroup", 512, Format::F16);
    let (turns, units) = (narrow.units.div_ceil(2), heads.units);
    let text = merged_all(&[&narrow, &heads], "", 132);
    let main = main_of(&text);
    // The one that waits inside comes first, and those who have no part in it wait too.
    let (first, second) = (main.find("s1_main(").unwrap(), main.find("s0_main(").unwrap());
    assert!(first < second && main[first..second].contains("else {\n            wait(lane);"), "{main}");
    assert!(main[first..second].contains("if has_failed()"), "{main}");
    // The other takes the workgroups behind, which are not to read too early.
    let behind = format!("if workgroup.x >= {units}u && workgroup.x < {}u {{", units + turns);
    let at = main.find(&behind).unwrap_or_else(|| panic!("{behind} in {main}"));
    assert!(main[at..second].contains("storageBarrier();"), "{main}");
}
