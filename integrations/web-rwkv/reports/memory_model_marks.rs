//! naga 30.0.1: under the Vulkan memory model no access to workgroup memory is marked as non-private.

use crate::spirv::{self, Instruction, WORKGROUP};

const TEXT: &str = include_str!("memory_model_marks.wgsl");

/// The memory operand without which barriers do not order an access under the Vulkan memory model.
const NON_PRIVATE_POINTER: u32 = 0x20;

/// The operands of a load or store of a scalar through one of these pointers; 0 where there are none.
fn operands(instruction: &Instruction, pointers: &[u32]) -> Option<u32> {
    let (load, store) = (61, 62);
    let (pointer, operands) = match instruction.code {
        code if code == load => (instruction.words[2], instruction.words.get(3)),
        code if code == store => (instruction.words[0], instruction.words.get(2)),
        _ => return None,
    };
    pointers.contains(&pointer).then(|| operands.copied().unwrap_or_default())
}

/// Every access to workgroup memory by loads and stores.
fn accesses() -> Vec<u32> {
    let module = spirv::of(TEXT);
    let memory_model = module.iter().find(|instruction| instruction.code == 14).unwrap();
    assert_eq!(memory_model.words[1], 3, "the memory model is not Vulkan's");
    let pointers = spirv::pointers(&module, WORKGROUP);
    module.iter().filter_map(|instruction| operands(instruction, &pointers)).collect()
}

#[test]
fn the_program_writes_workgroup_memory() {
    assert!(!accesses().is_empty() && TEXT.lines().count() < 40);
}

/// Passes once this is mended; then drop `should_panic`.
#[test]
#[should_panic(expected = "accesses that barriers do not order")]
fn barriers_order_workgroup_memory() {
    let private = accesses().into_iter().filter(|operands| operands & NON_PRIVATE_POINTER == 0).count();
    assert_eq!(private, 0, "accesses that barriers do not order");
}
