//! Every variant at every tunable, for every op of the model in every weight format, without a GPU: naga accepts it,
//! and it binds exactly the op's operands.

#![allow(clippy::unwrap_used)] // a failed helper is a failed test

use rayon::prelude::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use wgoose_graph::{
    BatchShape, Format, Fusion, FusionSet, LayerWeight, Level, LoraRanks, ModelShape, Operand, OperandKind, Target,
    Weight, WeightClass, rewrite, rwkv7,
};
use wgoose_kernels::plan::default_kernel;
use wgoose_kernels::{Access, Feature, Kernel, Limits, Numerics, Refusal, Site, Sources, ops};

fn limits() -> Limits {
    let features = BTreeSet::from([Feature::Subgroups, Feature::F16, Feature::CooperativeMatrix]);
    Limits {
        workgroup_invocations: 1024,
        workgroup_memory: 48 << 10,
        storage_buffers: 20,
        features,
        min_subgroup: 32,
        ..Limits::webgpu()
    }
}

/// Every site of a two-layer model, unfused, fused and fused but for what takes in fused ops, with matrices in that format.
fn sites(matrix: Format) -> Vec<Site> {
    sites_of(matrix, &[1, 16])
}

fn sites_of(matrix: Format, tokens: &[u32]) -> Vec<Site> {
    let ranks = LoraRanks { decay: 32, iclr: 32, value: 16, gate: 48 };
    let shape = ModelShape { layers: 2, width: 256, ffn: 512, head_size: 64, vocab: 512, ranks };
    // Of a layer's matrices only one is ever in columns.
    let has_it = |w: Weight| !matrix.is_in_columns() || matches!(w, Weight::Layer(_, LayerWeight::FfnValue));
    let format = |w: Weight| match w.class() {
        WeightClass::Matrix if has_it(w) => matrix,
        _ => Format::F16,
    };
    let mut sites = Vec::new();
    let all = FusionSet::from(Fusion::ALL);
    let without = |fusions: &[Fusion]| &all - &fusions.iter().copied().collect();
    let apart = without(&[Fusion::NormProject, Fusion::NormMatmul]);
    let unprojected = without(&[Fusion::Project, Fusion::TimeMixHeads]);
    for fusions in [FusionSet::new(), unprojected, apart, all.clone()] {
        for &tokens in tokens {
            let batch = BatchShape { tokens, segments: 1, outputs: 1 };
            for target in [Target::Logits, Target::HiddenSum(Level::Final)] {
                let mut graph = rwkv7::forward_to(&shape, target).unwrap();
                rewrite::apply(&mut graph, &fusions).unwrap();
                for id in graph.schedule().unwrap() {
                    let site = Site::of(&graph, id, &batch, &format);
                    if !sites.contains(&site) {
                        sites.push(site);
                    }
                }
            }
        }
    }
    sites
}

#[test]
fn every_variant_is_valid_and_binds_the_operands() {
    let (checked, refused) = (AtomicU32::new(0), AtomicU32::new(0));
    let formats: Vec<Format> = Format::ON_GPU.into_iter().chain(Format::IN_COLUMNS).collect();
    formats.into_par_iter().enumerate().for_each(|(i, format)| {
        for site in sites(format) {
            for variant in ops::kernels(&site.op).variants {
                let points = variant.points(&Sources::Embedded).unwrap();
                // Of many some, others for each format: random tests take others again.
                let step = points.len().div_ceil(16);
                for point in points.into_iter().skip(i % step).step_by(step) {
                    let kernel = match Kernel::new(variant, &site, &point, &limits(), &Sources::Embedded) {
                        Ok(kernel) => kernel,
                        Err(Refusal::Text(e)) => panic!("{} {point}: {e}", variant.id()),
                        Err(_) => {
                            refused.fetch_add(1, Relaxed);
                            continue;
                        }
                    };
                    checked.fetch_add(1, Relaxed);
                    // Merged, nobody else would wait in place of a stage that could but does not.
                    let may_wait = kernel.wgsl.contains("fn others_done(");
                    assert_eq!(may_wait, kernel.wgsl.contains("others_done(lane)"), "{}", variant.id());
                    let mut want: BTreeSet<&str> = site.op.operands().iter().map(|o| o.name).collect();
                    want.extend(["y", "params"]);
                    if let Some(overwritten) = site.op.in_place() {
                        want.remove(overwritten);
                    }
                    if site.op.only_updates_state() {
                        want.remove("y");
                    }
                    for binding in &kernel.reflection.bindings {
                        let updated = |o: &Operand| o.kind == OperandKind::State && o.name == binding.name;
                        let written = binding.name == "y" || site.op.operands().iter().any(updated);
                        assert_eq!(binding.access == Access::ReadWrite, written, "{} {}", variant.id(), binding.name);
                    }
                    let got: BTreeSet<&str> = kernel.reflection.bindings.iter().map(|b| b.name.as_str()).collect();
                    // A kernel need not look at an operand that tells it nothing (single-pass row kernels).
                    assert!(got.is_subset(&want), "{}: {got:?} against {want:?}", variant.id());
                    let idle: Vec<_> = want.difference(&got).collect();
                    let may_idle = idle.iter().all(|n| ["token_segments", "segments"].contains(n));
                    assert!(may_idle, "{} does not bind {idle:?}", variant.id());
                    assert!(kernel.units > 0);
                }
            }
        }
    });
    let (checked, refused) = (checked.into_inner(), refused.into_inner());
    println!("{checked} kernels valid, {refused} points refused");
    assert!(checked > 1000, "only {checked} kernels");
}

#[test]
fn a_choice_serves_every_row_count_of_its_bucket() {
    let mut held = 0;
    for (least, most) in [(2, 4), (5, 16), (17, 64), (65, 256)] {
        for format in [Format::F16, Format::Q4_K, Format::Q8_0T] {
            let of = |tokens| sites_of(format, &[tokens]);
            for (few, many) in of(least).iter().zip(&of(most)) {
                assert_eq!(few.op, many.op);
                for variant in ops::kernels(&many.op).variants {
                    for point in variant.points(&Sources::Embedded).unwrap() {
                        if variant.admits(many, &point, &limits()).is_ok() {
                            let refusal = variant.admits(few, &point, &limits()).err();
                            assert_eq!(refusal, None, "{} {point}: {least} rows of {most}", variant.id());
                            held += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(held > 1000, "only {held} points");
}

#[test]
fn what_rounds_is_known_and_no_default() {
    let named = |op: &str, numerics: Numerics| -> Vec<&str> {
        ops::variants(op).iter().filter(|v| v.numerics() == numerics).map(|v| v.name).collect()
    };
    for op in ["matmul", "matmul_add"] {
        assert_eq!(named(op, Numerics::Int8Activations), ["int8_subgroup", "dealt_int8"], "{op}");
        assert_eq!(named(op, Numerics::Int16Activations), ["dealt_int16", "dealt_blocks"], "{op}");
    }
    for op in ["norm_project", "norm_matmul"] {
        assert_eq!(named(op, Numerics::Int8Activations), ["dealt_int8"], "{op}");
        assert_eq!(named(op, Numerics::Int16Activations), ["dealt_blocks"], "{op}");
    }
    assert_eq!(named("project", Numerics::Int8Activations), ["int8_subgroup"]);
    assert_eq!(named("project", Numerics::Int16Activations), ["int16_subgroup"]);
    let mut admitted = BTreeSet::new();
    for format in Format::ON_GPU {
        for site in sites(format).iter().filter(|s| s.op.name().starts_with("matmul")) {
            let (variant, _, kernel) = default_kernel(site, &limits(), &Sources::Embedded).unwrap();
            assert_eq!((variant.numerics(), kernel.numerics), (Numerics::F32, Numerics::F32));
            let rough = ops::kernels(&site.op).variants.iter().filter(|v| v.numerics() > Numerics::F32);
            for rough in rough {
                let points = rough.points(&Sources::Embedded).unwrap();
                if let Some(point) = points.iter().find(|p| rough.admits(site, p, &limits()).is_ok()) {
                    let kernel = Kernel::new(rough, site, point, &limits(), &Sources::Embedded).unwrap();
                    assert!(kernel.numerics.error(site) > 0.0);
                    admitted.extend(site.format("w").map(|format| (rough.name, format)));
                }
            }
        }
    }
    let formats = [Format::Q4_K, Format::Q5_K, Format::Q8_0T, Format::Q4_0T, Format::Q6_KT];
    let names = ["int8_subgroup", "dealt_int8", "dealt_int16"];
    let mut want: BTreeSet<_> = names.into_iter().flat_map(|name| formats.map(|format| (name, format))).collect();
    want.extend([Format::Q4_K, Format::Q5_K, Format::Q6_KT].map(|format| ("dealt_blocks", format)));
    assert_eq!(admitted, want);
}

#[test]
fn columns_are_left_out_by_default_for_few_tokens_only() {
    for format in Format::IN_COLUMNS {
        for site in sites(format).iter().filter(|s| s.format("w") == Some(format)) {
            let (variant, ..) = default_kernel(site, &limits(), &Sources::Embedded).unwrap();
            assert_eq!(variant.name, if site.rows == 1 { "sparse" } else { "split_tiled" }, "{format}");
        }
    }
}

#[test]
fn refusals_have_types() {
    let site = sites(Format::F16).into_iter().find(|s| s.op.name() == "matmul" && s.rows == 1).unwrap();
    let variants = ops::kernels(&site.op).variants;
    let bare = Limits::webgpu();
    let reason = |name: &str, limits: &Limits| {
        let variant = variants.iter().find(|v| v.name == name).unwrap();
        let point = variant.defaults(&Sources::Embedded).unwrap();
        Kernel::new(variant, &site, &point, limits, &Sources::Embedded).map(|_| ())
    };
    assert_eq!(reason("rows_subgroup", &bare), Err(Refusal::Feature(Feature::Subgroups)));
    assert!(matches!(reason("tiled", &bare), Err(Refusal::Shape(_))));
    assert_eq!(reason("naive", &bare), Ok(()));
    let narrow = Limits { min_subgroup: 8, ..limits() };
    let reason_at = |lanes: u32, limits: &Limits| {
        let variant = variants.iter().find(|v| v.name == "dot_subgroup").unwrap();
        let mut point = variant.defaults(&Sources::Embedded).unwrap();
        point.0.insert("LANES".into(), lanes.to_string());
        Kernel::new(variant, &site, &point, limits, &Sources::Embedded).map(|_| ())
    };
    assert_eq!(reason_at(8, &narrow), Ok(()));
    assert_eq!(reason_at(16, &narrow), Err(Refusal::Limit { what: "invocations per subgroup", need: 16, limit: 8 }));
    let tight = Limits { storage_buffers: 2, ..Limits::webgpu() };
    assert!(matches!(reason("naive", &tight), Err(Refusal::Limit { what: "storage buffers", .. })));
}

#[test]
fn an_edited_kernel_is_another_kernel_and_errors_point_at_its_line() {
    let site = sites(Format::F16).into_iter().find(|s| s.op.name() == "mul").unwrap();
    let variant = &ops::kernels(&site.op).variants[0];
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("mul")).unwrap();
    let sources = Sources::Folder(folder.path().to_owned());
    let point = variant.defaults(&sources).unwrap();
    let make = |sources: &Sources| Kernel::new(variant, &site, &point, &limits(), sources);
    let embedded = make(&Sources::Embedded).unwrap();
    assert_eq!(make(&sources).unwrap().hash, embedded.hash);

    let file = folder.path().join("mul/elements.wgsl");
    std::fs::write(&file, variant.wgsl.text.replace("a[i] * b[i]", "b[i] * a[i]")).unwrap();
    assert_ne!(make(&sources).unwrap().hash, embedded.hash);

    std::fs::write(&file, variant.wgsl.text.replace("a[i] * b[i]", "a[i] * c[i]")).unwrap();
    let line = variant.wgsl.text.lines().position(|l| l.contains("a[i] * b[i]")).unwrap() + 1;
    let message = make(&sources).unwrap_err().to_string();
    assert!(message.starts_with(&format!("mul/elements.wgsl:{line}: ")), "{message}");
}
