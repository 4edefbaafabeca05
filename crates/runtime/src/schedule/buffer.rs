//! Buffers by what they hold, and ranges of them.

use super::Table;
use std::fmt;

/// A buffer on the device, by what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BufferId {
    /// The uniform blocks of the pass.
    Params,
    /// A table of the batch.
    Table(Table),
    /// An activation slot.
    Slot(usize),
    /// States of all sequences.
    States(usize),
    /// Weights that stay.
    Weights(usize),
    /// Weights that pass through.
    Ring,
    /// The counters of persistent kernels, see `kernels-wgsl/device/grid_barrier.wgsl`.
    GridBarrier,
    /// The offset table of a persistent kernel: [`Recording::offsets`](super::Recording::offsets).
    Offsets(usize),
    /// The cells of a persistent kernel whose values announce themselves, see `kernels-wgsl/device/announced.wgsl`.
    Cells(usize),
    /// What a dispatch writes where none may wait for another.
    Scratch(usize),
}

impl fmt::Display for BufferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BufferId::Params => f.write_str("params"),
            BufferId::Slot(n) => write!(f, "slot{n}"),
            BufferId::Table(table) => write!(f, "{table:?}"),
            BufferId::States(n) => write!(f, "states{n}"),
            BufferId::Weights(n) => write!(f, "weights{n}"),
            BufferId::Ring => f.write_str("ring"),
            BufferId::GridBarrier => f.write_str("grid-barrier"),
            BufferId::Offsets(n) => write!(f, "offsets{n}"),
            BufferId::Cells(n) => write!(f, "cells{n}"),
            BufferId::Scratch(n) => write!(f, "scratch{n}"),
        }
    }
}

/// A range of a buffer, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferRange {
    /// The buffer.
    pub buffer: BufferId,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl BufferRange {
    /// First byte behind it.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// Whether both have a byte in common.
    pub(crate) fn overlaps(&self, other: &BufferRange) -> bool {
        self.buffer == other.buffer && self.offset < other.end() && other.offset < self.end()
    }

    /// All of a buffer of that many bytes.
    pub(crate) fn whole(buffer: BufferId, bytes: u64) -> Self {
        BufferRange { buffer, offset: 0, bytes }
    }
}

impl fmt::Display for BufferRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}..{}]", self.buffer, self.offset, self.end())
    }
}
