//! Operations that a subgroup does together.

use super::{Place, Register, Width};
use naga::{ScalarKind, SubgroupOperation};

/// An operation of a subgroup.
#[derive(Clone, Debug)]
pub(crate) struct Collective {
    pub(crate) what: Subgroup,
    pub(crate) to: Register,
    pub(crate) from: Register,
    pub(crate) len: u32,
    /// The counters of the loops around it.
    pub(crate) loops: u32,
}

/// What a subgroup does together.
#[derive(Clone, Debug)]
pub(crate) enum Subgroup {
    Reduce(SubgroupOperation, ScalarKind),
    Scan(SubgroupOperation, ScalarKind, Inclusion),
    Ballot,
    First,
    Shuffle(Register),
    ShuffleXor(Register),
    ShuffleUp(Register),
    ShuffleDown(Register),
    QuadBroadcast(Register),
    QuadSwap(u32),
    MatrixLoad(MatrixPlace),
    MatrixStore(MatrixPlace),
    /// `from` is the left factor.
    MatrixMultiplyAdd {
        right: Register,
        sum: Register,
        rows: u32,
        columns: u32,
        inner: u32,
        is_half: bool,
    },
}

/// Whether a scan takes in the invocation's own value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inclusion {
    Inclusive,
    Exclusive,
}

/// Where a cooperative matrix is in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatrixPlace {
    pub(crate) variable: u32,
    pub(crate) at: Place,
    /// Elements of `stride_bytes` from one row, or column, to the next.
    pub(crate) stride: Register,
    pub(crate) stride_bytes: u32,
    pub(crate) rows: u32,
    pub(crate) columns: u32,
    pub(crate) is_row_major: bool,
    pub(crate) width: Width,
}
