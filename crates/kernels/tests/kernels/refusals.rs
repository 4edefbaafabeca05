//! Every refusal has a reason of the right type, for whole buckets of rows.

use crate::instances::{small, wide};
use wgoose_graph::Format;
use wgoose_kernels::{Access, Catalogue, Feature, Kernel, KernelError, Knows, Limits, Packed, Refusal};

#[test]
fn refusals_have_types() {
    let instance = small(Format::F16, &[1]).into_iter().find(|i| i.op.name() == "matmul" && i.rows == 1).unwrap();
    let (catalogue, bare) = (Catalogue::embedded(), Limits::webgpu());
    let made = |name: &str, choices: &[(&str, &str)], limits: &Limits| {
        let variant = catalogue.variant("matmul", name).unwrap();
        let mut spelled = variant.spell(&variant.default_config());
        spelled.extend(choices.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())));
        let config = variant.config(&spelled).unwrap();
        Kernel::new(variant, &instance, &config, limits).map(drop)
    };
    let refused = |name, choices: &[(&str, &str)], limits: &Limits| match made(name, choices, limits) {
        Err(KernelError::Refused(refusal)) => refusal,
        other => panic!("{name} is {other:?}"),
    };
    assert_eq!(refused("gemv_dequant", &[("reduce", "subgroup")], &bare), Refusal::Feature(Feature::Subgroups));
    assert_eq!(made("naive", &[], &bare), Ok(()));
    let narrow = Limits { min_subgroup: 8, ..wide() };
    assert_eq!(made("gemv_subgroup", &[("THREADS_PER_ROW", "8")], &narrow), Ok(()));
    let Refusal::Illegal { path, line, rule, reason } = refused("gemv_subgroup", &[("THREADS_PER_ROW", "16")], &narrow)
    else {
        panic!("a row's threads are in a subgroup")
    };
    assert!(line > 1 && rule.contains("THREADS_PER_ROW") && !reason.is_empty(), "{path}:{line}: {rule} {reason}");
    let tight = Limits { storage_buffers: 2, ..Limits::webgpu() };
    assert!(matches!(refused("naive", &[], &tight), Refusal::Limit { what: "storage buffers", .. }));
    let thin = Limits { workgroup_threads: 32, ..wide() };
    assert!(matches!(refused("naive", &[], &thin), Refusal::Limit { what: "threads per workgroup", .. }));
}

#[test]
fn a_fixed_grid_is_a_multiple_of_the_multiprocessors_that_there_are() {
    let instance = small(Format::F16, &[1]).into_iter().find(|i| i.op.name() == "matmul_add" && i.k == 512).unwrap();
    let catalogue = Catalogue::embedded();
    let variant = catalogue.variant("matmul_add", "gemv_fixed_grid").unwrap();
    for multiprocessors in [1, 2, 7, 46, 132] {
        let limits = Limits { multiprocessors, ..wide() };
        let mut grids = Vec::new();
        for config in variant.configs() {
            if variant.is_legal(&instance, &config, &limits).is_ok() {
                let grid = variant.tunable(&config, "GRID", &limits).unwrap();
                assert_eq!(variant.workgroups(&instance, &config, &limits).unwrap(), u64::from(grid));
                grids.push(grid);
            }
        }
        grids.sort_unstable();
        grids.dedup();
        let half = (multiprocessors > 1).then_some(multiprocessors / 2);
        let want: Vec<u32> = half.into_iter().chain([1, 2, 4].map(|n| n * multiprocessors)).collect();
        assert_eq!(grids, want, "{multiprocessors} multiprocessors");
    }
}

/// Half of one multiprocessor is a grid of no workgroups: such a configuration is refused before a rule divides by it.
#[test]
fn one_multiprocessor_breaks_no_rule() {
    let catalogue = Catalogue::embedded();
    for multiprocessors in [1, 2, 3] {
        let limits = Limits { multiprocessors, ..wide() };
        for instance in small(Format::Q4_0, &[1, 16]) {
            for variant in catalogue.variants(instance.op.name()) {
                for config in variant.configs() {
                    if let Err(KernelError::Text(error)) = variant.is_legal(&instance, &config, &limits) {
                        panic!("{multiprocessors} multiprocessors, {}: {error}", variant.path());
                    }
                }
            }
        }
    }
}

#[test]
fn a_kernel_without_state_formats_refuses_an_f16_state() {
    let (limits, ops) = (wide(), ["wkv", "wkv_heads", "time_mix_core", "time_mix_heads"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ops/wkv/plain.wgsl");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    // As kernels were written before states had formats.
    let knows = include_str!("../../../../kernels-wgsl/ops/wkv/rows.wgsl");
    let readers = include_str!("../../../../kernels-wgsl/lib/state/f32.wgsl").replace("weight", "state");
    let plain = knows.replace("#import lib/state/* as state binding 7", "");
    std::fs::write(&file, plain + &readers.replace("@binding(0)", "@binding(7)")).unwrap();
    let catalogue = Catalogue::with_folder(folder.path()).unwrap();

    let mut seen = 0;
    for instance in small(Format::F16, &[1, 16]).into_iter().filter(|i| ops.contains(&i.op.name())) {
        for variant in catalogue.variants(instance.op.name()) {
            let made = Kernel::new(variant, &instance, &variant.default_config(), &limits);
            if variant.name() == "plain" && instance.packed.state {
                let knows = Knows::Readers("lib/state");
                assert_eq!(made.err(), Some(Refusal::Packed { operand: "state", knows }.into()));
                continue;
            }
            let kernel = made.unwrap();
            let state = kernel.facts.bindings.iter().find(|binding| binding.name == "state").unwrap();
            let element = if instance.packed.state { ("vec2<u32>", 8) } else { ("vec4<f32>", 16) };
            assert_eq!((state.access, state.element.map(|e| (e.wgsl, e.bytes))), (Access::ReadWrite, Some(element)));
            seen += 1;
        }
        // Read and written once.
        let plain = wgoose_kernels::Instance { packed: Packed::default(), ..instance.clone() };
        let values = u64::from(instance.input("state").unwrap().cols);
        let saved = if instance.packed.state { 2 * 2 * values } else { 0 };
        assert_eq!(plain.bytes() - instance.bytes(), saved);
    }
    assert!(seen >= 2 * 7, "{seen} kernels");
}
