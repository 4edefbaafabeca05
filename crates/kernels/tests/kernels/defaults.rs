//! The kernels of ops without a plan.

use crate::instances::{small, wide};
use std::collections::BTreeSet;
use wgoose_graph::{BatchShape, Format, ModelShape, WeightClass, rewrite, rwkv7};
use wgoose_kernels::plan::{bindable_fusions, default_kernel};
use wgoose_kernels::{Access, Catalogue, DeviceFingerprint, Instance, Kernel, Limits, Plan, Precision};

#[test]
fn rounding_variants_are_listed_and_never_the_default() {
    let (catalogue, limits) = (Catalogue::embedded(), wide());
    let of = |op: &str, precision: Precision| -> BTreeSet<String> {
        let variants = catalogue.variants(op).iter();
        let rounds = |v: &wgoose_kernels::Variant| v.configs().iter().any(|c| v.precision(c) == precision);
        variants.filter(|v| rounds(v)).map(|v| v.name().to_owned()).collect()
    };
    let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<String>>();
    for op in ["matmul", "matmul_add"] {
        assert_eq!(of(op, Precision::Q8), names(&["gemv_batched_q8", "gemv_fixed_grid"]), "{op}");
        assert_eq!(of(op, Precision::Q15), names(&["gemv_fixed_grid", "gemv_fixed_grid_k"]), "{op}");
    }
    for op in ["norm_project", "norm_matmul"] {
        assert_eq!(of(op, Precision::Q8), names(&["gemv_fixed_grid"]), "{op}");
        assert_eq!(of(op, Precision::Q15), names(&["gemv_fixed_grid_k"]), "{op}");
    }
    assert_eq!(of("project", Precision::Q8), names(&["gemv_batched_rounded"]));
    assert_eq!(of("project", Precision::Q15), names(&["gemv_batched_rounded"]));
    let mut rounded = 0;
    for format in Format::all().filter(|f| !f.is_k_major()) {
        for instance in small(format, &[1, 16]).iter().filter(|i| i.op.name().starts_with("matmul")) {
            let (variant, config, kernel) = default_kernel(instance, Precision::F32, &limits, &catalogue).unwrap();
            assert_eq!((variant.precision(&config), kernel.facts.precision), (Precision::F32, Precision::F32));
            for variant in catalogue.variants(instance.op.name()) {
                let admitted = |c: &&wgoose_kernels::Config| {
                    variant.precision(c) > Precision::F32 && variant.admits(instance, c, &limits).is_ok()
                };
                let configs = variant.configs();
                if let Some(config) = configs.iter().find(admitted) {
                    let kernel = Kernel::new(variant, instance, config, &limits).unwrap();
                    assert_eq!(kernel.facts.precision, variant.precision(config));
                    assert!(instance.rounding_error(kernel.facts.precision) > 0.0);
                    rounded += 1;
                }
            }
        }
    }
    assert!(rounded > 20, "{rounded}");
}

#[test]
fn plans_choose_the_expected_default_kernel() {
    let (catalogue, limits) = (Catalogue::embedded(), wide());
    let device = DeviceFingerprint {
        adapter: String::new(),
        vendor: 0,
        device: 0,
        driver: String::new(),
        backend: String::new(),
        wgpu: String::new(),
    };
    let mut compared = 0;
    for (format, precision) in [(Format::F16, Precision::F32), (Format::Q4_K, Precision::F16)] {
        for instance in small(format, &[1, 100]) {
            let plan = Plan { precision, ..Plan::default_for(device.clone(), ModelShape::PRESETS[0].1, &limits) };
            let (variant, config, _) = plan.choose(&instance, &limits, &catalogue).unwrap();
            let (first, of_first) = plan.first_admitted(&instance, &limits, &catalogue).unwrap().unwrap();
            assert_eq!((first.label(&of_first)), (variant.label(&config)), "{instance:?}");
            assert!(!variant.is_plan_only(&config));
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn every_op_has_a_kernel_within_the_limits_of_webgpu() {
    let (catalogue, least) = (Catalogue::embedded(), Limits::webgpu());
    let model = ModelShape { layers: 2, ..ModelShape::preset("0.1B").unwrap() };
    let fusions = bindable_fusions(&model, &least);
    let mut graph = rwkv7::forward(&model).unwrap();
    rewrite::apply(&mut graph, &fusions).unwrap();
    let with_segments = |segments: u32, id| {
        let batch = BatchShape { tokens: 2000, segments, outputs: 1 };
        Instance::of(&graph, id, &batch, &|w| if w.class() == WeightClass::Matrix { Format::Q4_K } else { Format::F16 })
    };
    let storage = |kernel: &Kernel| kernel.facts.bindings.iter().filter(|b| b.access != Access::Uniform).count();
    for id in graph.schedule().unwrap() {
        let instance = with_segments(1, id);
        let (variant, _, kernel) = default_kernel(&instance, Precision::F32, &least, &catalogue).unwrap();
        assert!(storage(&kernel) <= 8, "{} binds {}", variant.id(), storage(&kernel));
    }
    // WKV has nine operands: its table of segments goes into a uniform block, of a fixed size.
    let wkv = graph.op_ids().find(|id| graph.op(*id).op.name() == "wkv").unwrap();
    let (variant, config, _) = default_kernel(&with_segments(1024, wkv), Precision::F32, &least, &catalogue).unwrap();
    assert!(variant.label(&config).contains("segment_table=uniform"), "{}", variant.label(&config));
    let refused = default_kernel(&with_segments(1025, wkv), Precision::F32, &least, &catalogue).unwrap_err();
    assert!(refused.to_string().contains("8"), "{refused}");
    // Where there is room it is an operand like all others.
    let roomy = Limits { storage_buffers: 9, ..least };
    let (variant, config, _) = default_kernel(&with_segments(1, wkv), Precision::F32, &roomy, &catalogue).unwrap();
    assert!(variant.label(&config).contains("segment_table=storage"), "{}", variant.label(&config));
}
