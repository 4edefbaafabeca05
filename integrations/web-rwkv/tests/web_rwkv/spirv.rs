//! The SPIR-V that naga makes of WGSL, an instruction at a time.

use naga::back::spv::{Options, write_vec};
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// Storage classes of variables and pointers.
pub(crate) const WORKGROUP: u32 = 4;
pub(crate) const PRIVATE: u32 = 6;

/// An instruction: its code, and its words after the first.
#[derive(Debug)]
pub(crate) struct Instruction {
    pub(crate) code: u32,
    pub(crate) words: Vec<u32>,
}

/// naga's module of a text.
pub(crate) fn of(wgsl: &str) -> Vec<Instruction> {
    let module = naga::front::wgsl::parse_str(wgsl).unwrap();
    let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).unwrap();
    let options = Options { lang_version: (1, 3), ..Options::default() };
    let words = write_vec(&module, &info, &options, None).unwrap();
    let mut rest = &words[5..];
    let mut instructions = Vec::new();
    while let Some(first) = rest.first() {
        let (instruction, after) = rest.split_at((first >> 16) as usize);
        instructions.push(Instruction { code: first & 0xffff, words: instruction[1..].to_vec() });
        rest = after;
    }
    instructions
}

/// The ids of pointers into a storage class.
pub(crate) fn pointers(module: &[Instruction], class: u32) -> Vec<u32> {
    let (type_pointer, variable, access_chain) = (32, 59, 65);
    let of = |code| module.iter().filter(move |instruction| instruction.code == code).map(|i| &i.words);
    let types: Vec<u32> = of(type_pointer).filter(|words| words[1] == class).map(|words| words[0]).collect();
    let ids = of(variable).chain(of(access_chain));
    ids.filter(|words| types.contains(&words[0])).map(|words| words[1]).collect()
}
