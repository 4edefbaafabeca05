//! Findings: two accesses, or one, and the fault that they are.

use crate::dispatch::Buffer;
use std::fmt;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// Two accesses of one place, one of them a write, without anything that orders them.
    Race,
    /// The same, with only a barrier of the other address space between: a `workgroupBarrier` orders no storage.
    WrongBarrier,
    /// An index beyond its array, or an access beyond what is bound.
    OutOfBounds,
    /// A read of workgroup memory that nobody wrote. WGSL promises zeros; runtimes may turn that off, as it takes time.
    UnwrittenWorkgroup,
    /// A read of storage that nobody wrote.
    UnwrittenStorage,
    /// A barrier that not all invocations of the workgroup reach together.
    DivergentBarrier,
    /// A subgroup operation that not all invocations of the subgroup reach together, or that reads from one that is not
    /// there.
    DivergentSubgroup,
    /// A matrix operation for which invocations of the subgroup give different places.
    NonUniformMatrix,
    /// Invocations that wait for something which no resident workgroup will do.
    EndlessWait,
    /// Results that depend on the order of invocations, subgroups or workgroups.
    OrderDependence,
}

impl FindingKind {
    /// All of them.
    pub const ALL: [FindingKind; 10] = [
        FindingKind::Race,
        FindingKind::WrongBarrier,
        FindingKind::OutOfBounds,
        FindingKind::UnwrittenWorkgroup,
        FindingKind::UnwrittenStorage,
        FindingKind::DivergentBarrier,
        FindingKind::DivergentSubgroup,
        FindingKind::NonUniformMatrix,
        FindingKind::EndlessWait,
        FindingKind::OrderDependence,
    ];

    /// As a comment `// sanitizer: allow NAME` has it.
    pub const fn name(self) -> &'static str {
        match self {
            FindingKind::Race => "race",
            FindingKind::WrongBarrier => "wrong-barrier",
            FindingKind::OutOfBounds => "out-of-bounds",
            FindingKind::UnwrittenWorkgroup => "unwritten-workgroup",
            FindingKind::UnwrittenStorage => "unwritten-storage",
            FindingKind::DivergentBarrier => "divergent-barrier",
            FindingKind::DivergentSubgroup => "divergent-subgroup",
            FindingKind::NonUniformMatrix => "non-uniform-matrix",
            FindingKind::EndlessWait => "endless-wait",
            FindingKind::OrderDependence => "order-dependence",
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FindingKind::Race => "race",
            FindingKind::WrongBarrier => "race, with only a barrier of the other address space between",
            FindingKind::OutOfBounds => "index out of bounds",
            FindingKind::UnwrittenWorkgroup => "read of workgroup memory that nobody wrote",
            FindingKind::UnwrittenStorage => "read of storage that nobody wrote",
            FindingKind::DivergentBarrier => "barrier in divergent control flow",
            FindingKind::DivergentSubgroup => "subgroup operation in divergent control flow",
            FindingKind::NonUniformMatrix => "matrix operation at different places",
            FindingKind::EndlessWait => "wait that nobody ends",
            FindingKind::OrderDependence => "result that depends on the order of invocations",
        })
    }
}

/// How an invocation takes part in a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessKind {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// An atomic operation, whether it reads or writes.
    Atomic,
    /// It computes the place of an element.
    Index,
    /// It waits at a barrier.
    Barrier,
    /// It takes part in a subgroup operation.
    Subgroup,
    /// It is elsewhere, or has ended.
    Elsewhere,
}

impl fmt::Display for AccessKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AccessKind::Read => "read",
            AccessKind::Write => "write",
            AccessKind::Atomic => "atomic",
            AccessKind::Index => "index",
            AccessKind::Barrier => "barrier",
            AccessKind::Subgroup => "subgroup operation",
            AccessKind::Elsewhere => "elsewhere",
        })
    }
}

/// Who does something, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// What it does.
    pub kind: AccessKind,
    /// Line of the text, from 1; 0 where there is none.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// The function around it.
    pub function: String,
    /// The line without the spaces around it.
    pub text: String,
    /// Number of the invocation in its workgroup; of a matrix operation the first of the subgroup.
    pub invocation: u32,
    /// Number of the workgroup, x first.
    pub workgroup: u32,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Access { kind, line, column, function, text, invocation, workgroup } = self;
        write!(f, "{kind} at {line}:{column} in {function}, workgroup {workgroup} invocation {invocation}: {text}")
    }
}

/// Something that is wrong, with every place that takes part. Findings at the same places are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingKind,
    /// The variable, where there is one.
    pub variable: Option<String>,
    /// The earlier access, or the only one.
    pub first: Access,
    /// The access that conflicts with it.
    pub second: Option<Access>,
    /// Figures: an index and a length, a byte, how many lanes.
    pub detail: String,
    /// How often it happened.
    pub count: u64,
    /// Of a race: whether every result keeps its bits when NaN takes the place of what is read. `None` if nobody asked.
    pub is_value_dropped: Option<bool>,
    /// The reason of a comment `// sanitizer: allow KIND: REASON` at one of the lines, or alone on the line above;
    /// `dropped-race` allows races whose value is dropped.
    pub allowed: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(variable) = &self.variable {
            write!(f, " on {variable}")?;
        }
        write!(f, " ({}", self.detail)?;
        if self.count > 1 {
            write!(f, "; {} times", self.count)?;
        }
        match self.is_value_dropped {
            Some(true) => f.write_str("; the value read is dropped")?,
            Some(false) => f.write_str("; the value read reaches a result")?,
            None => {}
        }
        write!(f, ")\n  {}", self.first)?;
        if let Some(second) = &self.second {
            write!(f, "\n  {second}")?;
        }
        if let Some(reason) = &self.allowed {
            write!(f, "\n  allowed: {reason}")?;
        }
        Ok(())
    }
}

/// What a dispatch did.
#[derive(Clone, Debug)]
pub struct Report {
    /// What is wrong, by kind and line.
    pub findings: Vec<Finding>,
    /// The buffers of the dispatch as it leaves them.
    pub buffers: Vec<Buffer>,
    /// Whether all workgroups ended: they do not after a wait that nobody ends.
    pub is_complete: bool,
    /// Steps of all invocations.
    pub steps: u64,
}

impl Report {
    /// The findings that no comment allows.
    pub fn faults(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.allowed.is_none())
    }

    /// Whether nothing is wrong but what comments allow.
    pub fn is_clean(&self) -> bool {
        self.faults().next().is_none()
    }
}
