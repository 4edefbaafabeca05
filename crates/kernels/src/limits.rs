//! The limits of a device, as plain data: kernels are chosen and refused by these, never by a device handle.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Something a variant may need beyond plain WebGPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Feature {
    /// Subgroup operations.
    Subgroups,
    /// 16-bit float arithmetic and storage.
    F16,
    /// Cooperative matrices of 16 x 16 x 16 with f16 operands and f32 sums, in subgroups of always 32 threads.
    CooperativeMatrix,
    /// Cooperative matrices of 8 x 8 x 8 with f16 operands and f32 sums, in subgroups of always
    /// [`Limits::min_subgroup`] threads.
    CooperativeMatrix8,
    /// Memory that workgroups of one dispatch share.
    CoherentMemory,
}

impl Feature {
    /// All of them.
    pub const ALL: [Feature; 5] = [
        Feature::Subgroups,
        Feature::F16,
        Feature::CooperativeMatrix,
        Feature::CooperativeMatrix8,
        Feature::CoherentMemory,
    ];

    /// As a kernel file names it in `// needs:`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Feature::Subgroups => "subgroups",
            Feature::F16 => "f16",
            Feature::CooperativeMatrix => "cooperative-matrix",
            Feature::CooperativeMatrix8 => "cooperative-matrix-8x8",
            Feature::CoherentMemory => "coherent-memory",
        }
    }
}

/// A name that is no [`Feature`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no device feature '{0}': subgroups, f16, cooperative-matrix, cooperative-matrix-8x8, coherent-memory"
)]
pub struct UnknownFeature(pub String);

impl FromStr for Feature {
    type Err = UnknownFeature;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Feature::ALL.into_iter().find(|f| f.name() == name).ok_or_else(|| UnknownFeature(name.to_owned()))
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Feature::Subgroups => "subgroups",
            Feature::F16 => "f16",
            Feature::CooperativeMatrix => "cooperative matrices of 16 x 16",
            Feature::CooperativeMatrix8 => "cooperative matrices of 8 x 8",
            Feature::CoherentMemory => "coherent memory",
        })
    }
}

/// The limits of a device that kernels depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Threads per workgroup.
    pub workgroup_threads: u32,
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
    /// Fewest threads of a subgroup.
    pub min_subgroup: u32,
    /// How many workgroups run at once if each takes all that a multiprocessor has: as a rule the number of these,
    /// measured (`wgoose_runtime::kernel_bench::open_measured`). Grids of fixed size are multiples of it.
    pub multiprocessors: u32,
    /// Whether it is a software adapter, which compiles kernels for the CPU: a large one takes it up to a minute.
    pub is_cpu: bool,
    /// PCI id of its vendor, 0 if unknown: speed heuristics go by it.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub vendor: u32,
    /// Optional features.
    pub features: BTreeSet<Feature>,
}

/// Whether a vendor is not known. Records of before have none.
fn is_unknown(vendor: &u32) -> bool {
    *vendor == 0
}

impl Limits {
    /// Multiprocessors of a device that was not measured.
    pub const SOME_MULTIPROCESSORS: u32 = 16;

    /// The limits every WebGPU device has, and no optional feature.
    pub fn webgpu() -> Self {
        Limits {
            workgroup_threads: 256,
            workgroup_memory: 16 << 10,
            workgroups_per_dimension: 65535,
            storage_binding: 128 << 20,
            buffer: 256 << 20,
            storage_buffers: 8,
            storage_alignment: 256,
            uniform_alignment: 256,
            min_subgroup: 4,
            multiprocessors: Limits::SOME_MULTIPROCESSORS,
            is_cpu: false,
            vendor: 0,
            features: BTreeSet::new(),
        }
    }

    /// Whether kernels may multiply on matrix units.
    pub fn has_matrix_units(&self) -> bool {
        self.features.contains(&Feature::CooperativeMatrix)
    }

    /// Whether kernel files know a limit by this name.
    pub(crate) fn is_name(name: &str) -> bool {
        Limits::webgpu().named(name).is_some()
    }

    /// The limit that a kernel file knows by this name.
    pub(crate) fn named(&self, name: &str) -> Option<u64> {
        Some(match name {
            "multiprocessors" => self.multiprocessors.into(),
            "min_subgroup" => self.min_subgroup.into(),
            "workgroup_threads" => self.workgroup_threads.into(),
            "workgroup_memory" => self.workgroup_memory.into(),
            "storage_buffers" => self.storage_buffers.into(),
            _ => return None,
        })
    }
}
