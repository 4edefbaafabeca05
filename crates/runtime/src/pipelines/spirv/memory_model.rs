//! SPIR-V of kernels with cooperative matrices, whose barriers order what they should.
//!
//! naga declares the Vulkan memory model for these. In it a barrier orders only accesses that are marked as non-private,
//! and makes them available and visible only where it says so (Vulkan specification, appendix "Vulkan Memory Model",
//! sections "Available and Visible" and "Memory Semantics"). naga 30 marks nothing, so that a driver may read workgroup
//! memory before others have stored to it. Here the marks are put in, and the module goes to the driver as it is.

use super::words::{BOUND, HEADER, instructions, opcode, string};
use spirv::{MemoryAccess, MemorySemantics, Op, StorageClass};
use std::collections::{HashMap, HashSet};

/// Marks accesses to shared memory as non-private, and has barriers make them available and visible. `None` if the
/// words are no module, or accesses are marked already.
pub(super) fn ordered(words: &[u32]) -> Option<Vec<u32>> {
    let mut out = words.get(..HEADER)?.to_vec();
    let shared = into_shared_memory(words)?;
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

/// The storage that workgroups of a dispatch share, by its name in kernels.
const PARTIALS: &str = "partials";

/// The ids of pointers into memory that several invocations write and read: of the workgroup, and [`PARTIALS`].
fn into_shared_memory(words: &[u32]) -> Option<HashSet<u32>> {
    let mut types = Vec::new();
    let mut pointers = HashSet::new();
    for instruction in instructions(words)? {
        match (Op::from_u32(opcode(instruction)), instruction) {
            (Some(Op::Name), [_, id, text @ ..]) if string(text) == PARTIALS => {
                pointers.insert(*id);
            }
            (Some(Op::TypePointer), [_, id, class, _]) if *class == StorageClass::Workgroup as u32 => types.push(*id),
            (Some(Op::AccessChain | Op::InBoundsAccessChain | Op::CopyObject), [_, ty, id, base, ..])
                if types.contains(ty) || pointers.contains(base) =>
            {
                pointers.insert(*id);
            }
            (Some(Op::Variable | Op::FunctionParameter), [_, ty, id, ..]) if types.contains(ty) => {
                pointers.insert(*id);
            }
            _ => {}
        }
    }
    Some(pointers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipelines::spirv::{of, tests::kernel};

    #[test]
    fn workgroup_memory_is_ordered_by_barriers() {
        let words = of(&kernel("gemm_coop_splitk")).unwrap();
        let shared = into_shared_memory(&words).unwrap();
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
    fn a_malformed_module_is_refused() {
        let words = of(&kernel("gemm_coop_splitk")).unwrap();
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
