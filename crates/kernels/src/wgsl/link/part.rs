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

/// Cells of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells {
    /// The first of them.
    pub first: u32,
    /// Whether they are those of the layer before.
    pub of_layer_before: bool,
}

/// Where the values of an operand announce themselves; where they do not, they are in its slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnnouncedOperand {
    /// What is loaded.
    pub loaded: Option<Cells>,
    /// The first cell of what is stored.
    pub stored: Option<u32>,
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
    /// Operands whose values announce themselves, by binding number.
    pub(crate) announced: &'a [(u32, AnnouncedOperand)],
    /// Whether it runs behind all layers.
    pub(crate) is_last: bool,
}

/// The name of a bound buffer.
pub(super) fn buffer_name(buffer: usize) -> String {
    format!("buffer{buffer}")
}
