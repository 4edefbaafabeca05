//! A kernel that becomes a stage, and where its operands are.

use crate::{Facts, Params};

/// Why a kernel cannot be a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAStage(pub(crate) &'static str);

/// A part of a bound buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSlice {
    /// Index of the buffer.
    pub buffer: usize,
    /// Its first element there.
    pub offset: Offset,
}

/// The first element of an operand in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    /// The same in every layer.
    Fixed(u32),
    /// In the offset table: the column.
    PerLayer(usize),
}

/// What becomes a stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) text: &'a str,
    pub(crate) facts: &'a Facts,
    pub(crate) workgroups: u64,
    pub(crate) params: &'a Params,
    /// Where its operands are, by binding number.
    pub(crate) slices: &'a [(u32, BufferSlice)],
    pub(crate) needs_grid_sync: bool,
}

/// The name of a bound buffer.
pub(super) fn buffer_name(buffer: usize) -> String {
    format!("buffer{buffer}")
}
