//! The speed heuristics of the program: what they prune, and which kernels are the defaults by them.

#![allow(clippy::unwrap_used)] // a failed helper is a failed test

use std::collections::BTreeMap;
use std::path::Path;
use wgoose_graph::{BatchShape, Format, Fusion, LayerWeight, ModelShape, Weight, WeightClass, rewrite, rwkv7};
use wgoose_kernels::plan::default_kernel;
use wgoose_kernels::{Catalogue, Config, Feature, Instance, KernelError, Limits, Precision, Refusal, Variant};
use wgoose_plans::catalogue;

/// PCI ids of vendors.
const NVIDIA: u32 = 0x10de;
const MESA: u32 = 0x10005;
const UNKNOWN: u32 = 0;

/// A device with all that kernels ask for.
fn wide(vendor: u32) -> Limits {
    Limits {
        workgroup_threads: 1024,
        workgroup_memory: 48 << 10,
        storage_buffers: 20,
        features: Feature::ALL.into(),
        min_subgroup: 32,
        multiprocessors: 132,
        vendor,
        ..Limits::webgpu()
    }
}

/// The op instances of a small model with any fusions, for a pass of so many tokens.
fn instances(matrix: Format, tokens: u32) -> Vec<Instance> {
    let shape = ModelShape { layers: 2, ..ModelShape::preset("0.1B").unwrap() };
    // Of a layer's matrices only one is ever K-major.
    let has_it = |w: Weight| !matrix.is_k_major() || matches!(w, Weight::Layer(_, LayerWeight::FfnValue));
    let format = |w: Weight| if w.class() == WeightClass::Matrix && has_it(w) { matrix } else { Format::F16 };
    let batch = BatchShape { tokens, segments: 1, outputs: 1 };
    let mut instances: Vec<Instance> = Vec::new();
    for fusions in Fusion::covering_sets() {
        let mut graph = rwkv7::forward(&shape).unwrap();
        rewrite::apply(&mut graph, &fusions).unwrap();
        for id in graph.schedule().unwrap() {
            let instance = Instance::of(&graph, id, &batch, &format);
            if !instances.contains(&instance) {
                instances.push(instance);
            }
        }
    }
    instances
}

/// The rule that prunes a configuration, if one does.
fn pruned(variant: &Variant, instance: &Instance, config: &Config, limits: &Limits) -> Option<Refusal> {
    match variant.admits(instance, config, limits) {
        Err(KernelError::Refused(refusal @ Refusal::Pruned { .. })) => Some(refusal),
        _ => None,
    }
}

fn count_pruned(variant: &Variant, instance: &Instance, limits: &Limits) -> usize {
    variant.configs().iter().filter(|config| pruned(variant, instance, config, limits).is_some()).count()
}

#[test]
fn a_pruned_configuration_is_legal_and_names_the_rule_and_its_place() {
    let (catalogue, limits) = (catalogue::embedded(), wide(NVIDIA));
    let mut rules: BTreeMap<(String, usize), (String, Refusal)> = BTreeMap::new();
    for tokens in [1, 16, 512] {
        for instance in instances(Format::Q4_K, tokens) {
            for variant in catalogue.variants(instance.op.name()) {
                for config in variant.configs() {
                    let Some(refusal) = pruned(variant, &instance, &config, &limits) else { continue };
                    assert_eq!(variant.is_legal(&instance, &config, &limits), Ok(()), "{}", variant.label(&config));
                    let Refusal::Pruned { file, line, rule, .. } = &refusal else { continue };
                    rules.insert((file.to_string(), *line), (rule.clone(), refusal));
                }
            }
        }
    }
    for ((file, line), (rule, refusal)) in &rules {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap();
        let first = text.lines().nth(line - 1).and_then(|line| line.split("//").next()).unwrap().trim();
        assert!(rule.starts_with(first) && !first.is_empty(), "{file}:{line}: {rule}");
        let said = refusal.to_string();
        assert!(said.starts_with("pruned: ") && said.ends_with(&format!("({file}:{line})")), "{said}");
    }
    for file in ["plans/heuristics/any-device.txt", "plans/heuristics/nvidia.txt"] {
        assert!(rules.keys().filter(|(of, _)| of == file).count() > 10, "{file}: {:?}", rules.keys());
    }
}

#[test]
fn devices_of_other_vendors_have_the_rules_of_nvidia_while_they_have_no_family() {
    let catalogue = catalogue::embedded();
    let devices = [NVIDIA, MESA, UNKNOWN].map(wide);
    for tokens in [1, 64] {
        for instance in instances(Format::F16, tokens) {
            for variant in catalogue.variants(instance.op.name()) {
                for config in variant.configs() {
                    let [here, mesa, unknown] = devices.each_ref().map(|d| variant.admits(&instance, &config, d));
                    assert_eq!((&mesa, &unknown), (&here, &here), "{}", variant.label(&config));
                }
            }
        }
    }
}

#[test]
fn zeros_are_skipped_by_default_for_few_tokens_only() {
    let catalogue = catalogue::embedded();
    for format in Format::all_k_major() {
        for (tokens, want) in [(1, "gemv_sparse"), (64, "gemm_tiled_splitk")] {
            for instance in instances(format, tokens).iter().filter(|i| i.format("w") == Some(format)) {
                let (variant, ..) = default_kernel(instance, Precision::F32, &wide(NVIDIA), &catalogue).unwrap();
                assert_eq!(variant.name(), want, "{format}");
            }
        }
    }
}

#[test]
fn a_choice_serves_every_row_count_of_its_bucket() {
    let (catalogue, limits) = (catalogue::embedded(), wide(NVIDIA));
    let mut held = 0;
    for (least, most) in [(2, 4), (5, 16), (17, 64), (65, 256)] {
        for format in [Format::F16, Format::Q4_K, Format::Q8_0_X8] {
            for (few, many) in instances(format, least).iter().zip(&instances(format, most)) {
                assert_eq!(few.op, many.op);
                for variant in catalogue.variants(many.op.name()) {
                    for config in variant.configs() {
                        if variant.admits(many, &config, &limits).is_ok() {
                            let admitted = variant.admits(few, &config, &limits);
                            assert_eq!(admitted, Ok(()), "{}: {least} rows of {most}", variant.label(&config));
                            held += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(held > 1000, "only {held} configurations");
}

#[test]
fn rules_are_about_edited_files_and_not_about_new_ones() {
    let (folder, limits) = (tempfile::tempdir().unwrap(), wide(NVIDIA));
    let instance = instances(Format::F16, 1).into_iter().find(|instance| instance.op.name() == "matmul").unwrap();
    let embedded = Catalogue::embedded();
    let text = embedded.text("ops/matmul/gemv_dequant.wgsl").unwrap();
    let ops = folder.path().join("ops/matmul");
    std::fs::create_dir_all(&ops).unwrap();
    let pruned_of = |edited: &str| {
        std::fs::write(ops.join("gemv_dequant.wgsl"), edited).unwrap();
        std::fs::write(ops.join("mine.wgsl"), text).unwrap();
        let catalogue = catalogue::with_folder(folder.path()).unwrap();
        let [edited, new] = ["gemv_dequant", "mine"].map(|name| catalogue.variant("matmul", name).unwrap());
        assert_eq!(count_pruned(new, &instance, &limits), 0);
        count_pruned(edited, &instance, &limits)
    };
    let own = pruned_of(text);
    assert!(own > 0);
    assert_eq!(pruned_of(&format!("{text}// edited\n")), own);
    // A rule about a constant that the edited file no longer has prunes nothing.
    let renamed = pruned_of(&text.replace("TOKENS", "MANY"));
    assert!(renamed < own, "{renamed} of {own}");
}

#[test]
fn kernels_alone_have_no_heuristics() {
    let limits = wide(NVIDIA);
    for instance in instances(Format::Q4_K, 64) {
        for variant in Catalogue::embedded().variants(instance.op.name()) {
            assert_eq!(count_pruned(variant, &instance, &limits), 0, "{}", variant.id());
        }
    }
}
