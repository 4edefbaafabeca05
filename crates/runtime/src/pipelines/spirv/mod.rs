//! SPIR-V of kernels with cooperative matrices, as naga writes it and then mended: it goes to the driver as it is.

mod memory_model;
mod reinterpret;
mod words;

use naga::back::spv;
use wgoose_kernels::{Feature, Kernel};

/// Whether a kernel must not reach the driver by wgpu's own translation. Matrices of 8 x 8 go wgpu's way: Metal's barriers order
/// all memory, and so do those of lavapipe, which runs a workgroup in one thread.
pub(super) fn is_needed(kernel: &Kernel) -> bool {
    kernel.facts.features.contains(&Feature::CooperativeMatrix)
}

/// What such a kernel needs of the device.
pub(super) const FEATURES: wgpu::Features =
    wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX.union(wgpu::Features::PASSTHROUGH_SHADERS);

/// Translates a kernel, with checks of loops and divisions unless its text is this program's. Its bindings are numbered in their order, as
/// wgpu numbers them.
///
/// # Errors
/// What naga says of the text.
pub(super) fn of(kernel: &Kernel) -> Result<Vec<u32>, String> {
    let words = translated(kernel)?;
    let mended = reinterpret::reinterpreted(&words).and_then(|words| memory_model::ordered(&words));
    mended.ok_or_else(|| "its SPIR-V cannot be read".to_owned())
}

/// As naga writes it, with the names by which `reinterpret` finds what it patches.
fn translated(kernel: &Kernel) -> Result<Vec<u32>, String> {
    let (module, info) = kernel.module().map_err(|e| e.to_string())?;
    let binding = |(place, b): (usize, &wgoose_kernels::Binding)| {
        let bound = spv::BindingInfo { descriptor_set: 0, binding: place as u32, binding_array_size: None };
        (naga::ResourceBinding { group: 0, binding: b.number }, bound)
    };
    let options = spv::Options {
        lang_version: (1, 5),
        flags: spv::WriterFlags::DEBUG,
        fake_missing_bindings: false,
        binding_map: kernel.facts.bindings.iter().enumerate().map(binding).collect(),
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        // Buffers have the checks of the device: wgpu opens it with robust access. Indices of other memory stay unchecked: the patches
        // read it as elements of another size, and a bound counts those of its own.
        force_loop_bounding: !kernel.is_trusted,
        emit_int_div_checks: !kernel.is_trusted,
        ..spv::Options::default()
    };
    spv::write_vec(&module, &info, &options, None).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use wgoose_graph::{Activation, BatchShape, Format, FusionSet, LoraRanks, ModelShape, Target, rewrite, rwkv7};
    use wgoose_kernels::{Catalogue, Instance, Limits, matrix_check};

    /// A product of 16 tokens by a variant on cooperative matrices.
    pub(super) fn kernel(variant: &str) -> Kernel {
        kernel_in(variant, Format::F16)
    }

    /// The same of weights in a format.
    pub(super) fn kernel_in(variant: &str, format: Format) -> Kernel {
        let ranks = LoraRanks { decay: 32, iclr: 32, value: 16, gate: 48 };
        let shape = ModelShape {
            layers: 1,
            width: 1024,
            ffn: 2048,
            head_size: 64,
            vocab: 512,
            ranks,
            deep_embed: None,
            embedding_norm: true,
            output_head: true,
        };
        let mut graph = rwkv7::forward_to(&shape, Target::Logits).unwrap();
        rewrite::apply(&mut graph, &FusionSet::new()).unwrap();
        let batch = BatchShape { tokens: 16, segments: 1, outputs: 16 };
        let instances = graph.schedule().unwrap().into_iter().map(|id| Instance::of(&graph, id, &batch, &|_| format));
        let product = wgoose_graph::Op::Matmul { activation: Activation::None };
        let instance = instances.into_iter().find(|s| s.op == product).unwrap();
        let features = BTreeSet::from([Feature::Subgroups, Feature::F16, Feature::CooperativeMatrix]);
        let limits = Limits { workgroup_memory: 48 << 10, min_subgroup: 32, features, ..Limits::webgpu() };
        let catalogue = Catalogue::embedded();
        let variant = catalogue.variant("matmul", variant).unwrap();
        let kernel = |config| Kernel::new(variant, &instance, &config, &limits).ok();
        variant.configs().into_iter().find_map(kernel).unwrap()
    }

    /// The kernel that a device is checked with.
    fn check() -> Kernel {
        let features = BTreeSet::from([Feature::Subgroups, Feature::F16, Feature::CooperativeMatrix]);
        let limits = Limits { min_subgroup: 32, features, ..Limits::webgpu() };
        let kernel = matrix_check::kernel(Feature::CooperativeMatrix, &limits, &Catalogue::embedded());
        kernel.unwrap().unwrap()
    }

    #[test]
    fn untrusted_kernels_are_bounds_checked_and_patched() {
        for variant in ["gemm_coop_128x128", "gemm_coop_32x64"] {
            let kernel = kernel(variant);
            assert!(kernel.is_trusted);
            let checked = Kernel { is_trusted: false, ..kernel.clone() };
            assert!(of(&checked).unwrap().len() > of(&kernel).unwrap().len(), "{variant}");
        }
    }

    #[test]
    fn a_device_is_checked_for_every_patch() {
        let words = translated(&check()).unwrap();
        let uses = |name: &str| {
            let all = || words::instructions(&words).unwrap();
            let named = |i: &&[u32]| words::opcode(i) == spirv::Op::Name as u32 && words::string(&i[2..]) == name;
            let id = all().find(named).unwrap_or_else(|| panic!("there is no {name}"))[1];
            let uses = [spirv::Op::AccessChain, spirv::Op::FunctionCall].map(|op| op as u32);
            all().filter(|i| uses.contains(&words::opcode(i)) && i[3] == id).count()
        };
        let twins = ["tile_x", "tile_x_as_f16", "tile_w", "tile_w_as_f16", "tile_w_as_f32"];
        for name in twins.into_iter().chain(["bits_as_half2", "half2_as_bits", "partials"]) {
            assert!(uses(name) > 0, "{name}");
        }
        let reinterpreted = reinterpret::reinterpreted(&words).unwrap();
        assert_ne!(reinterpreted, words);
        assert_ne!(memory_model::ordered(&reinterpreted).unwrap(), reinterpreted);
    }
}
