//! Mutations: a shader without one of its barriers or bounds tests. A sanitizer that finds nothing in them finds
//! nothing at all.

use crate::error::SanitizerError;
use crate::program::{Guard, Op, Program};
use crate::shader::Shader;
use std::fmt;

/// What a mutation takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MutationKind {
    /// A barrier of workgroup memory.
    WorkgroupBarrier,
    /// A barrier of storage.
    StorageBarrier,
    /// An `if` that compares: what it guards runs always, or it never leaves.
    BoundsTest,
    /// A `min` or `clamp` of integers: its first operand takes its place.
    Clamp,
}

impl MutationKind {
    /// Every kind.
    pub const ALL: [MutationKind; 4] =
        [MutationKind::WorkgroupBarrier, MutationKind::StorageBarrier, MutationKind::BoundsTest, MutationKind::Clamp];
}

impl fmt::Display for MutationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MutationKind::WorkgroupBarrier => "workgroup barrier",
            MutationKind::StorageBarrier => "storage barrier",
            MutationKind::BoundsTest => "bounds test",
            MutationKind::Clamp => "clamp",
        })
    }
}

/// Something that can be taken away from a shader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// What it is.
    pub kind: MutationKind,
    /// Line of the text, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    op: u32,
}

impl Mutation {
    pub(crate) fn apply(&self, program: &mut Program) {
        let op = &mut program.ops[self.op as usize];
        *op = match (self.kind, op.clone()) {
            (MutationKind::BoundsTest, Op::JumpUnless { target, .. }) => {
                let leaves = program.guards.contains(&(self.op, Guard::Exit));
                if leaves { Op::Jump { target } } else { Op::Nothing }
            }
            (MutationKind::Clamp, Op::Binary { len, to, a, .. } | Op::Ternary { len, to, a, .. }) => {
                Op::Copy { to, from: a, len }
            }
            _ => Op::Nothing,
        };
    }
}

impl Shader {
    /// Everything that can be taken away, in the order of the text.
    ///
    /// # Errors
    /// As [`Shader::run`].
    pub fn mutations(&self) -> Result<Vec<Mutation>, SanitizerError> {
        let program = self.program(32)?;
        let barriers = program.ops.iter().enumerate().filter_map(|(op, instruction)| match instruction {
            Op::Barrier { is_storage: true, .. } => Some((op as u32, MutationKind::StorageBarrier)),
            Op::Barrier { .. } => Some((op as u32, MutationKind::WorkgroupBarrier)),
            _ => None,
        });
        let guards = program.guards.iter().map(|(op, guard)| match guard {
            Guard::Exit | Guard::Around => (*op, MutationKind::BoundsTest),
            Guard::Clamp => (*op, MutationKind::Clamp),
        });
        let located = barriers.chain(guards).map(|(op, kind)| {
            let (line, column) = self.place(&program, op);
            Mutation { kind, line, column, op }
        });
        let mut all: Vec<Mutation> = located.collect();
        all.sort_by_key(|mutation| (mutation.line, mutation.column, mutation.op));
        Ok(all)
    }
}
