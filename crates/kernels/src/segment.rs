//! Segments: which tokens of a packed batch belong to which sequence.

use bytemuck::{Pod, Zeroable};

/// Consecutive tokens of one sequence, as kernels read them: `vec4<u32>` in `segments`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Segment {
    /// Index of its first token in the batch.
    pub first: u32,
    /// Number of tokens, at least 1.
    pub len: u32,
    /// Row of the state it reads and updates.
    pub slot: u32,
    /// Nothing: a row of the table has 16 bytes.
    pub unused: u32,
}

impl Segment {
    /// Tokens `first .. first + len`, whose state is in `slot`.
    pub const fn new(first: u32, len: u32, slot: u32) -> Self {
        Segment { first, len, slot, unused: 0 }
    }

    /// Its tokens.
    pub(crate) fn tokens(&self) -> std::ops::Range<usize> {
        self.first as usize..(self.first + self.len) as usize
    }
}
