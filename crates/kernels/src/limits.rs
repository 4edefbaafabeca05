//! What a device can do, as plain data: kernels are chosen and refused by these, never by a device handle.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Something a variant may need beyond plain WebGPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Feature {
    /// Subgroup operations.
    Subgroups,
    /// 16-bit float arithmetic and storage.
    F16,
    /// Cooperative matrices of 16 x 16 x 16 with f16 operands and f32 sums, in subgroups of always 32 invocations.
    CooperativeMatrix,
    /// Memory that workgroups of one dispatch share.
    CoherentMemory,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Feature::Subgroups => "subgroups",
            Feature::F16 => "f16",
            Feature::CooperativeMatrix => "cooperative matrices",
            Feature::CoherentMemory => "coherent memory",
        })
    }
}

/// The limits of a device that kernels depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Invocations per workgroup.
    pub workgroup_invocations: u32,
    /// Bytes of workgroup memory.
    pub workgroup_memory: u32,
    /// Workgroups per dimension of a dispatch.
    pub workgroups_per_dimension: u32,
    /// Largest storage binding in bytes.
    pub storage_binding: u64,
    /// Largest buffer in bytes.
    pub buffer: u64,
    /// Storage buffers per shader stage.
    pub storage_buffers: u32,
    /// Alignment of a storage binding's offset in bytes.
    pub storage_alignment: u32,
    /// Alignment of a uniform binding's offset in bytes.
    pub uniform_alignment: u32,
    /// Fewest invocations of a subgroup.
    pub min_subgroup: u32,
    /// Optional features.
    pub features: BTreeSet<Feature>,
}

impl Limits {
    /// The limits every WebGPU device has, and no optional feature.
    pub fn webgpu() -> Self {
        Limits {
            workgroup_invocations: 256,
            workgroup_memory: 16 << 10,
            workgroups_per_dimension: 65535,
            storage_binding: 128 << 20,
            buffer: 256 << 20,
            storage_buffers: 8,
            storage_alignment: 256,
            uniform_alignment: 256,
            min_subgroup: 4,
            features: BTreeSet::new(),
        }
    }
}
