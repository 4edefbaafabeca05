//! naga 30.0.1: a private variable that one entry point uses stays one, and hides that a loop is uniform.

use crate::spirv::{self, PRIVATE};

const TEXT: &str = include_str!("shuffles_behind_private.wgsl");

/// OpGroupNonUniformShuffleXor.
const SHUFFLE_XOR: u32 = 346;

#[test]
fn the_program_shuffles_in_a_loop_of_a_private_bound() {
    let module = spirv::of(TEXT);
    let shuffle = module.iter().position(|instruction| instruction.code == SHUFFLE_XOR).unwrap();
    let pointers = spirv::pointers(&module, PRIVATE);
    let is_load = |i: &&spirv::Instruction| i.code == 61 && pointers.contains(&i.words[2]);
    assert_eq!(module[..shuffle].iter().filter(is_load).count(), 1);
    assert!(TEXT.lines().count() < 40);
}

/// Passes once naga promotes such variables; then drop `should_panic`.
#[test]
#[should_panic(expected = "private variables of one entry point")]
fn a_private_variable_of_one_entry_point_is_promoted() {
    let pointers = spirv::pointers(&spirv::of(TEXT), PRIVATE);
    assert_eq!(pointers, [0; 0], "private variables of one entry point");
}
