//! A shader as a flat program over a register file.
//!
//! Every function has a static frame, as WGSL has no recursion. An invocation is then a program counter, registers and
//! a stack of return addresses, and can be parked anywhere: at a barrier, at a subgroup operation, in a loop that
//! waits.

mod collective;

pub(crate) use collective::{Collective, Inclusion, MatrixPlace, Subgroup};

use crate::scalar::{Binary, Packing, Ternary, Unary};
use naga::Span;

/// A register of 32 bits, by its number.
pub(crate) type Register = u32;

/// The register that is always 0: the base of places that are known beforehand.
pub(crate) const ZERO: Register = 0;

/// The number of elements of an array that is as long as what is bound.
pub(crate) const DYNAMIC: u32 = u32::MAX;

/// No variable: an array in registers.
pub(crate) const IN_REGISTERS: u32 = u32::MAX;

/// A place in memory, in bytes, or among the registers: the value of a register plus a constant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) base: Register,
    pub(crate) offset: u32,
}

/// How wide a scalar is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Word,
    Half,
    Byte,
}

impl Width {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Width::Word => 4,
            Width::Half => 2,
            Width::Byte => 1,
        }
    }
}

/// The scalars of a type in memory: the offset in bytes and the width of each.
pub(crate) type Layout = Vec<(u32, Width)>;

/// An instruction.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Copy {
        to: Register,
        from: Register,
        len: u32,
    },
    Zero {
        to: Register,
        len: u32,
    },
    Splat {
        to: Register,
        from: Register,
        len: u32,
    },
    Unary {
        op: Unary,
        len: u32,
        to: Register,
        a: Register,
    },
    /// Steps are 0 for an operand that is one scalar for all.
    Binary {
        op: Binary,
        len: u32,
        to: Register,
        a: Register,
        b: Register,
        a_step: u8,
        b_step: u8,
    },
    Ternary {
        op: Ternary,
        len: u32,
        to: Register,
        a: Register,
        b: Register,
        c: Register,
        b_step: u8,
        c_step: u8,
    },
    InsertBits {
        len: u32,
        to: Register,
        value: Register,
        new: Register,
        offset: Register,
        count: Register,
    },
    Select {
        len: u32,
        to: Register,
        condition: Register,
        accept: Register,
        reject: Register,
        condition_step: u8,
    },
    Dot {
        is_float: bool,
        len: u32,
        to: Register,
        a: Register,
        b: Register,
    },
    /// Columns follow each other.
    MatrixProduct {
        to: Register,
        a: Register,
        b: Register,
        rows: u32,
        inner: u32,
        columns: u32,
    },
    Transpose {
        to: Register,
        from: Register,
        rows: u32,
        columns: u32,
    },
    DotBytes {
        is_signed: bool,
        to: Register,
        a: Register,
        b: Register,
    },
    Packing {
        op: Packing,
        to: Register,
        from: Register,
    },
    AllOrAny {
        is_any: bool,
        to: Register,
        from: Register,
        len: u32,
    },
    /// The place of an element, checked against the number of elements.
    Element {
        to: Register,
        at: Place,
        index: Register,
        stride: u32,
        count: u32,
        variable: u32,
    },
    /// An element of a value in registers.
    Pick {
        to: Register,
        from: Register,
        index: Register,
        len: u32,
        count: u32,
    },
    LoadRegisters {
        to: Register,
        at: Place,
        len: u32,
    },
    StoreRegisters {
        at: Place,
        from: Register,
        len: u32,
    },
    LoadWords {
        to: Register,
        variable: u32,
        at: Place,
        len: u32,
    },
    StoreWords {
        from: Register,
        variable: u32,
        at: Place,
        len: u32,
    },
    Load {
        to: Register,
        variable: u32,
        at: Place,
        layout: u32,
    },
    Store {
        from: Register,
        variable: u32,
        at: Place,
        layout: u32,
    },
    AtomicLoad {
        to: Register,
        variable: u32,
        at: Place,
    },
    AtomicStore {
        from: Register,
        variable: u32,
        at: Place,
    },
    /// Writes the old value and, after a comparison, whether it was equal.
    AtomicChange {
        change: Change,
        to: Register,
        variable: u32,
        at: Place,
        value: Register,
        compare: Register,
    },
    ArrayLength {
        to: Register,
        variable: u32,
        offset: u32,
        stride: u32,
    },
    Jump {
        target: u32,
    },
    JumpUnless {
        condition: Register,
        target: u32,
    },
    JumpUnlessEqual {
        a: Register,
        value: u32,
        target: u32,
    },
    Count {
        counter: Register,
    },
    Call {
        function: u32,
        loops: u32,
    },
    Return,
    End,
    Barrier {
        is_storage: bool,
        is_workgroup: bool,
        loops: u32,
    },
    Collective(Box<Collective>),
    Nothing,
}

/// What an atomic operation makes of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Add,
    Subtract,
    And,
    Or,
    Xor,
    MinSigned,
    MinUnsigned,
    MaxSigned,
    MaxUnsigned,
    Exchange,
    CompareExchange,
}

/// Where a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Workgroup,
    Storage { is_writable: bool },
    Uniform,
}

/// A variable in memory.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) space: Space,
    /// Group and binding.
    pub(crate) binding: Option<(u32, u32)>,
    /// Bytes; of one that is as long as what is bound those of one element.
    pub(crate) bytes: u32,
    /// Bytes of its smallest scalar.
    pub(crate) granule: u32,
    /// Whether other workgroups see its values without a fence of memory, once control says that they are there.
    pub(crate) is_coherent: bool,
}

/// A value that an invocation begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Builtin {
    WorkgroupId,
    NumWorkgroups,
    WorkgroupSize,
    LocalIndex,
    LocalId,
    GlobalId,
    SubgroupId,
    NumSubgroups,
    SubgroupLane,
    SubgroupSize,
}

/// What an instruction does in the text: what a mutation can take away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// The jump of an `if` that compares, past a block that leaves: it is then always taken.
    Exit,
    /// The jump of an `if` that compares, past a block without an `else`: it is then never taken.
    Around,
    /// A `min` or `clamp` of integers.
    Clamp,
}

/// A compiled entry point.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    /// Of each instruction, its place in the text.
    pub(crate) spans: Vec<Span>,
    /// Of each instruction, its function.
    pub(crate) functions: Vec<u32>,
    pub(crate) function_names: Vec<String>,
    pub(crate) entry: u32,
    pub(crate) layouts: Vec<Layout>,
    /// Sets of loop counters, by the number that instructions have.
    pub(crate) loops: Vec<Vec<Register>>,
    /// What the registers of an invocation begin with.
    pub(crate) registers: Vec<u32>,
    pub(crate) builtins: Vec<(Register, Builtin)>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) guards: Vec<(u32, Guard)>,
    pub(crate) workgroup_size: [u32; 3],
    pub(crate) subgroup_size: u32,
}
