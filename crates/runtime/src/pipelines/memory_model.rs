//! SPIR-V of kernels with cooperative matrices, whose barriers order what they should.
//!
//! naga declares the Vulkan memory model for these. In it a barrier orders only accesses that are marked as non-private,
//! and makes them available and visible only where it says so (Vulkan specification, appendix "Vulkan Memory Model",
//! sections "Available and Visible" and "Memory Semantics"). naga 30 marks nothing, so that a driver may read workgroup
//! memory before others have stored to it. Here the marks are put in, and the module goes to the driver as it is.

use naga::back::spv;
use spirv::{MemoryAccess, MemorySemantics, Op, StorageClass};
use std::collections::{HashMap, HashSet};
use wgoose_kernels::{Feature, Kernel};

/// Whether wgpu's own translation of a kernel allows its barriers to have no effect. Matrices of 8 x 8 go wgpu's way: Metal's
/// barriers order all memory, and so do those of lavapipe, which runs a workgroup in one thread.
pub(super) fn needs_patch(kernel: &Kernel) -> bool {
    kernel.facts.features.contains(&Feature::CooperativeMatrix)
}

/// Translates a kernel without run-time checks, its bindings numbered in their order, as wgpu numbers them.
///
/// # Errors
/// What naga says of the text.
pub(super) fn ordered_spirv(kernel: &Kernel) -> Result<Vec<u32>, String> {
    let (module, info) = kernel.module().map_err(|e| e.to_string())?;
    let binding = |(place, b): (usize, &wgoose_kernels::Binding)| {
        let bound = spv::BindingInfo { descriptor_set: 0, binding: place as u32, binding_array_size: None };
        (naga::ResourceBinding { group: 0, binding: b.number }, bound)
    };
    let options = spv::Options {
        lang_version: (1, 5),
        flags: spv::WriterFlags::empty(),
        fake_missing_bindings: false,
        binding_map: kernel.facts.bindings.iter().enumerate().map(binding).collect(),
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..spv::Options::default()
    };
    let words = spv::write_vec(&module, &info, &options, None).map_err(|e| e.to_string())?;
    ordered(&words).ok_or_else(|| "its SPIR-V cannot be read".to_owned())
}

/// Words before the first instruction: magic number, version, generator, bound of ids, schema.
const HEADER: usize = 5;
/// The word of the header that no id reaches.
const BOUND: usize = 3;

/// Marks accesses to workgroup memory as non-private, and has barriers make them available and visible. `None` if the
/// words are no module, or accesses are marked already.
fn ordered(words: &[u32]) -> Option<Vec<u32>> {
    let mut out = words.get(..HEADER)?.to_vec();
    let shared = in_workgroup_memory(words)?;
    let semantics: Vec<u32> =
        instructions(words)?.filter_map(|i| barrier_semantics(i).and_then(|at| i.get(at)).copied()).collect();
    // Constants of barriers by the id of what they stood for.
    let mut stronger = HashMap::new();
    for instruction in instructions(words)? {
        let opcode = opcode(instruction);
        let mut copy = instruction.to_vec();
        // Where the pointer is, and how long the instruction is without memory operands.
        let access = match Op::from_u32(opcode) {
            Some(Op::Load) => Some((3, 4)),
            Some(Op::Store) => Some((1, 3)),
            Some(Op::CooperativeMatrixLoadKHR) => Some((3, 6)),
            Some(Op::CooperativeMatrixStoreKHR) => Some((1, 5)),
            _ => None,
        };
        if let Some((pointer, len)) = access
            && shared.contains(instruction.get(pointer)?)
        {
            if instruction.len() != len {
                return None;
            }
            copy.push(MemoryAccess::NON_PRIVATE_POINTER.bits());
            copy[0] = ((copy.len() as u32) << 16) | opcode;
        }
        if let Some(at) = barrier_semantics(instruction) {
            *copy.get_mut(at)? = *stronger.get(instruction.get(at)?)?;
        }
        out.extend(copy);
        // OpConstant: type, result, value.
        if let (Some(Op::Constant), [_, ty, id, value]) = (Op::from_u32(opcode), instruction)
            && semantics.contains(id)
        {
            let fresh = out[BOUND];
            out[BOUND] += 1;
            stronger.insert(*id, fresh);
            let both = MemorySemantics::MAKE_AVAILABLE | MemorySemantics::MAKE_VISIBLE;
            out.extend([instruction[0], *ty, fresh, value | both.bits()]);
        }
    }
    Some(out)
}

/// Where a barrier has the id of its semantics.
fn barrier_semantics(instruction: &[u32]) -> Option<usize> {
    match Op::from_u32(opcode(instruction))? {
        Op::ControlBarrier => Some(3),
        Op::MemoryBarrier => Some(2),
        _ => None,
    }
}

/// The ids of pointers into workgroup memory.
fn in_workgroup_memory(words: &[u32]) -> Option<HashSet<u32>> {
    let mut types = Vec::new();
    let mut pointers = HashSet::new();
    for instruction in instructions(words)? {
        match (Op::from_u32(opcode(instruction)), instruction) {
            (Some(Op::TypePointer), [_, id, class, _]) if *class == StorageClass::Workgroup as u32 => types.push(*id),
            (
                Some(Op::Variable | Op::AccessChain | Op::InBoundsAccessChain | Op::FunctionParameter | Op::CopyObject),
                [_, ty, id, ..],
            ) if types.contains(ty) => {
                pointers.insert(*id);
            }
            _ => {}
        }
    }
    Some(pointers)
}

/// The instructions behind the header; `None` if they do not fill the words.
fn instructions(words: &[u32]) -> Option<impl Iterator<Item = &[u32]>> {
    let mut all = Vec::new();
    let mut rest = words.get(HEADER..)?;
    while let Some(first) = rest.first() {
        let (instruction, after) = rest.split_at_checked((first >> 16) as usize).filter(|(i, _)| !i.is_empty())?;
        all.push(instruction);
        rest = after;
    }
    Some(all.into_iter())
}

/// Of an instruction, which is never empty.
fn opcode(instruction: &[u32]) -> u32 {
    instruction[0] & 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use wgoose_graph::{Activation, BatchShape, Format, FusionSet, LoraRanks, ModelShape, Target, rewrite, rwkv7};
    use wgoose_kernels::{Catalogue, Feature, Instance, Limits};

    /// A product of 16 tokens on cooperative matrices.
    fn kernel() -> Kernel {
        let ranks = LoraRanks { decay: 32, iclr: 32, value: 16, gate: 48 };
        let shape = ModelShape { layers: 1, width: 1024, ffn: 2048, head_size: 64, vocab: 512, ranks };
        let mut graph = rwkv7::forward_to(&shape, Target::Logits).unwrap();
        rewrite::apply(&mut graph, &FusionSet::new()).unwrap();
        let batch = BatchShape { tokens: 16, segments: 1, outputs: 16 };
        let instances =
            graph.schedule().unwrap().into_iter().map(|id| Instance::of(&graph, id, &batch, &|_| Format::F16));
        let product = wgoose_graph::Op::Matmul { activation: Activation::None };
        let instance = instances.into_iter().find(|s| s.op == product).unwrap();
        let features = BTreeSet::from([Feature::Subgroups, Feature::F16, Feature::CooperativeMatrix]);
        let limits = Limits { workgroup_memory: 48 << 10, min_subgroup: 32, features, ..Limits::webgpu() };
        let catalogue = Catalogue::embedded();
        let variant = catalogue.variant("matmul", "gemm_coop").unwrap();
        let kernel = |config| Kernel::new(variant, &instance, &config, &limits).ok();
        variant.configs().into_iter().find_map(kernel).unwrap()
    }

    #[test]
    fn workgroup_memory_is_ordered_by_barriers() {
        let words = ordered_spirv(&kernel()).unwrap();
        let shared = in_workgroup_memory(&words).unwrap();
        let constants: HashMap<u32, u32> = instructions(&words)
            .unwrap()
            .filter(|i| opcode(i) == Op::Constant as u32 && i.len() == 4)
            .map(|i| (i[2], i[3]))
            .collect();
        let both = (MemorySemantics::MAKE_AVAILABLE | MemorySemantics::MAKE_VISIBLE).bits();
        let (mut marked, mut barriers) = (0, 0);
        for instruction in instructions(&words).unwrap() {
            if let Some(at) = barrier_semantics(instruction) {
                assert_eq!(constants[&instruction[at]] & both, both);
                barriers += 1;
            }
            let touches = instruction.iter().skip(1).any(|id| shared.contains(id));
            let accesses = [Op::Load, Op::Store, Op::CooperativeMatrixLoadKHR, Op::CooperativeMatrixStoreKHR];
            if touches && accesses.iter().any(|op| *op as u32 == opcode(instruction)) {
                assert_eq!(instruction.last(), Some(&MemoryAccess::NON_PRIVATE_POINTER.bits()), "{instruction:?}");
                marked += 1;
            }
        }
        assert!(marked > 8 && barriers >= 4, "{marked} accesses, {barriers} barriers");
    }

    #[test]
    fn what_is_no_module_is_refused() {
        let words = ordered_spirv(&kernel()).unwrap();
        let refused = |words: &[u32]| ordered(words).is_none();
        assert!(refused(&words), "its accesses are marked already");
        assert!(refused(&[]) && refused(&words[..HEADER - 1]) && !refused(&words[..HEADER]));
        let barrier = [words[..HEADER].to_vec(), vec![(2 << 16) | Op::ControlBarrier as u32, 1]].concat();
        assert!(refused(&barrier), "it has no semantics");
        let longer_than_it_is = [words.as_slice(), &[(4 << 16) | Op::Load as u32]].concat();
        assert!(refused(&longer_than_it_is));
        let mut empty = words;
        empty[HEADER] &= 0xffff;
        assert!(refused(&empty));
    }
}
