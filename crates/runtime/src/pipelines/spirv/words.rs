//! The words of a SPIR-V module, instruction by instruction.

/// Words before the first instruction: magic number, version, generator, bound of ids, schema.
pub(super) const HEADER: usize = 5;
/// The word of the header that no id reaches.
pub(super) const BOUND: usize = 3;

/// The instructions behind the header; `None` if they do not fill the words.
pub(super) fn instructions(words: &[u32]) -> Option<impl Iterator<Item = &[u32]>> {
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
pub(super) fn opcode(instruction: &[u32]) -> u32 {
    instruction[0] & 0xffff
}

/// A literal string: UTF-8 in words, the first byte lowest, up to a zero.
pub(super) fn string(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
