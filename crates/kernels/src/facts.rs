//! Facts: what is known of a kernel without a device, taken once from naga's module of its final text.

use crate::{Feature, Precision};
use std::collections::BTreeSet;

/// What a kernel is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What it binds, in the order of the binding numbers.
    pub bindings: Vec<Binding>,
    /// Threads of a workgroup.
    pub workgroup_size: [u32; 3],
    /// Bytes of workgroup memory.
    pub workgroup_memory: u32,
    /// Elements of 16 bytes of the variable `scratch`, which the stages of a persistent kernel share.
    pub scratch: u32,
    /// Device features that its text uses.
    pub features: BTreeSet<Feature>,
    /// The least precise of what it computes with.
    pub precision: Precision,
    /// What it multiplies with.
    pub arithmetic: Arithmetic,
    /// Whether it calls `grid_dependency_wait`: as a stage it can wait inside, behind its own loads.
    pub has_dependency_wait: bool,
}

impl Facts {
    /// Threads of a workgroup in all.
    pub fn threads(&self) -> u32 {
        self.workgroup_size.iter().product()
    }
}

/// What a kernel multiplies with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// f32 multiply-adds.
    F32,
    /// Dot products of four int8 pairs.
    Int8,
    /// Cooperative matrices.
    Matrix,
}

/// What a kernel binds, by operand name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// An operand's name, `y` or `params`.
    pub name: String,
    /// Binding number in group 0.
    pub number: u32,
    /// How it is accessed.
    pub access: Access,
    /// What it is an array of, if it is one of scalars or vectors.
    pub element: Option<Element>,
}

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Element {
    /// As WGSL writes it.
    pub wgsl: &'static str,
    /// Bytes from one to the next.
    pub bytes: u32,
}

/// How a binding is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The uniform block.
    Uniform,
    /// A read-only storage buffer.
    Read,
    /// A storage buffer that is written.
    ReadWrite,
}
