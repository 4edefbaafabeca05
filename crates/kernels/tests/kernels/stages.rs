//! Kernels as stages of a megakernel, read from its text.

use crate::instances::wide;
use std::collections::BTreeSet;
use wgoose_graph::{
    BatchShape, Format, Fusion, FusionSet, LayerWeight, LoraRanks, ModelShape, Weight, WeightClass, rewrite, rwkv7,
};
use wgoose_kernels::persistent::{BoundBuffer, BufferSlice, Launch, Offset, StagePart, fuse};
use wgoose_kernels::{Access, Catalogue, Feature, Instance, Kernel, KernelError, Limits, Params, Refusal};

fn limits() -> Limits {
    let features = BTreeSet::from([Feature::Subgroups, Feature::CoherentMemory]);
    Limits { storage_buffers: 64, features, ..wide() }
}

/// A kernel of an op of the second layer, with workgroups of that many threads, where w_k has a format of its own.
fn kernel(op: &str, variant: &str, threads: u32, w_k: Format) -> Kernel {
    let ranks = LoraRanks { decay: 64, iclr: 64, value: 32, gate: 64 };
    let shape = ModelShape {
        layers: 2,
        width: 1024,
        ffn: 4096,
        head_size: 64,
        vocab: 512,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    };
    let mut graph = rwkv7::forward(&shape).unwrap();
    rewrite::apply(&mut graph, &FusionSet::from(Fusion::ALL)).unwrap();
    let batch = BatchShape { tokens: 1, segments: 1, outputs: 1 };
    let format = |w: Weight| match w {
        Weight::Layer(_, LayerWeight::Key) => w_k,
        _ if w.class() == WeightClass::Vector => Format::F32,
        _ => Format::F16,
    };
    let id = graph.op_ids().find(|id| graph.op(*id).op.name() == op && graph.op(*id).layer == Some(1)).unwrap();
    let instance = Instance::of(&graph, id, &batch, &format);
    let catalogue = Catalogue::embedded();
    let variant = catalogue.variant(op, variant).unwrap();
    let configs = variant.configs();
    let kernels = configs.iter().filter_map(|c| Kernel::new(variant, &instance, c, &limits()).ok());
    kernels.into_iter().find(|k| k.facts.threads() == threads).unwrap()
}

/// Kernels that need not wait for one another, fused for that many workgroups. All that they read as words of 16 bytes is in
/// one buffer but for `apart`; everything else has a buffer of its own.
fn fused(kernels: &[&Kernel], apart: &str, workgroups: u32) -> String {
    let mut buffers = vec![BoundBuffer { element: "vec4<u32>".to_owned(), is_written: false }];
    let mut parts = Vec::new();
    let mut columns = 0;
    for kernel in kernels {
        let mut slices = Vec::new();
        for binding in &kernel.facts.bindings {
            let Some(element) = binding.element.filter(|_| binding.access != Access::Uniform) else { continue };
            let is_written = binding.access == Access::ReadWrite;
            let mut buffer = 0;
            if element.wgsl != "vec4<u32>" || is_written || binding.name == apart {
                buffer = buffers.len();
                buffers.push(BoundBuffer { element: element.wgsl.to_owned(), is_written });
            }
            slices.push((binding.number, BufferSlice { buffer, offset: Offset::PerLayer(columns) }));
            columns += 1;
        }
        let (workgroups, needs_grid_sync) = (kernel.workgroups, parts.is_empty());
        let (announced, is_last) = (vec![], false);
        let params = Params::default();
        parts.push(StagePart { kernel, workgroups, params, slices, needs_grid_sync, announced, is_last });
    }
    let launch = Launch { columns, workgroups, threads: 512 };
    fuse(&parts, &buffers, launch, None, &limits(), &Catalogue::embedded()).unwrap().wgsl
}

fn main_of(text: &str) -> &str {
    &text[text.find("fn main(").unwrap()..]
}

#[test]
fn matrices_of_one_buffer_and_format_share_their_code() {
    let holds = |text: &str, constant: &str| text.contains(&format!("const s0_{constant}: bool = true"));
    let same = kernel("norm_project", "gemv_fixed_grid", 512, Format::F16);
    let text = fused(&[&same], "", 132);
    assert!(holds(&text, "SAME_BUFFER") && text.contains("fn s0_w_r_any_offset() -> u32 {"), "{text}");
    assert!(holds(&text, "ADAPTERS_SAME_BUFFER") && text.contains("[s0_g1_any_offset() + ("), "{text}");

    let text = fused(&[&same], "w_v", 132);
    assert!(!holds(&text, "SAME_BUFFER") && holds(&text, "ADAPTERS_SAME_BUFFER"), "w_v is in another buffer");

    let other = kernel("norm_project", "gemv_fixed_grid", 512, Format::BF16);
    let text = fused(&[&other], "", 132);
    assert!(!holds(&text, "SAME_BUFFER") && holds(&text, "ADAPTERS_SAME_BUFFER"), "w_k has another format");
}

#[test]
fn a_phase_waits_behind_its_own_loads() {
    let kernel = kernel("norm_matmul", "gemv_fixed_grid", 512, Format::F16);
    let own = u32::try_from(kernel.workgroups).unwrap();
    let inside = "fn s0_grid_dependency_wait(tid: u32) -> u32 { return wait(tid); }";

    let text = fused(&[&kernel], "", own);
    assert!(text.contains(inside) && !main_of(&text).contains("wait(tid)"), "all workgroups wait in the stage");

    let text = fused(&[&kernel], "", own + 1);
    let waits = main_of(&text).contains("} else {\n            wait(tid);");
    assert!(text.contains(inside) && waits, "a workgroup outside the stage waits too");

    let text = fused(&[&kernel], "", own - 1);
    let never = "fn s0_grid_dependency_wait(tid: u32) -> u32 { return 0u; }";
    assert!(text.contains(never), "a workgroup that iterates may not wait in each iteration");
    assert_eq!(main_of(&text).matches("wait(tid);\n        storageBarrier();").count(), 1, "so all wait before");
}

#[test]
fn independent_phases_run_on_separate_workgroups() {
    let narrow = kernel("shift_store", "elements", 256, Format::F16);
    let heads = kernel("time_mix_heads", "heads", 512, Format::F16);
    let (iterations, own) = (narrow.workgroups.div_ceil(2), heads.workgroups);
    let text = fused(&[&narrow, &heads], "", 132);
    let main = main_of(&text);
    // The one that waits inside comes first, and workgroups outside it wait too.
    let (first, second) = (main.find("s1_main(").unwrap(), main.find("s0_main(").unwrap());
    assert!(first < second && main[first..second].contains("else {\n            wait(tid);"), "{main}");
    assert!(main[first..second].contains("if has_timed_out()"), "{main}");
    // The other takes the workgroups behind, which are not to read too early.
    let behind = format!("if workgroup.x >= {own}u && workgroup.x < {}u {{", own + iterations);
    let at = main.find(&behind).unwrap_or_else(|| panic!("{behind} in {main}"));
    assert!(main[at..second].contains("storageBarrier();"), "{main}");
}

#[test]
fn an_impossible_megakernel_is_refused() {
    let narrow = kernel("shift_store", "elements", 256, Format::F16);
    let part = |kernel| StagePart {
        kernel,
        workgroups: 1,
        params: Params::default(),
        slices: vec![],
        needs_grid_sync: true,
        announced: vec![],
        is_last: false,
    };
    let fused = |launch, limits: &Limits| {
        let catalogue = Catalogue::embedded();
        fuse(&[part(&narrow)], &[], launch, None, limits, &catalogue)
    };
    let refused = |launch, limits: &Limits| match fused(launch, limits) {
        Err(KernelError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    let launch = Launch { columns: 0, workgroups: 132, threads: 256 };
    assert!(matches!(refused(launch, &limits()), Refusal::Stage(_)), "an operand without a buffer");
    assert!(
        matches!(refused(Launch { threads: 640, ..launch }, &limits()), Refusal::Stage(_)),
        "256 do not divide 640"
    );
    assert!(matches!(refused(Launch { workgroups: 0, ..launch }, &limits()), Refusal::None(_)));
    assert_eq!(refused(launch, &wide()), Refusal::Feature(Feature::CoherentMemory));
}
