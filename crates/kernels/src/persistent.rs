//! The persistent kernel: the dispatches of several layers as one, whose workgroups stay resident and wait for one another
//! at grid barriers, or hand over values that announce themselves.
//!
//! A dispatch boundary costs a fast GPU 3 to 5 us, a barrier among workgroups that are all resident 1 to 2. The stages are
//! the kernels that the plan chose, so that there is one source for both forms, and every kernel can be a stage that is as
//! wide as the others. WGSL promises no progress between workgroups: a persistent kernel is run only where it was seen to
//! work, and its waits are bounded.

use crate::wgsl::link::{NotAStage, OFFSET_TABLE, Part, TABLE_HEAD, link};
use crate::wgsl::reflect;
use crate::{Catalogue, Feature, Kernel, KernelError, Limits, Params, Refusal};
use std::collections::BTreeSet;
use std::sync::Arc;

pub use crate::wgsl::link::{AnnouncedOperand, Announcing, BoundBuffer, BufferSlice, CellCopy, Cells, Launch, Offset};

/// What a device must have for it.
pub const NEEDS: [Feature; 2] = [Feature::Subgroups, Feature::CoherentMemory];

/// Bytes of the offset table.
pub const OFFSET_TABLE_BYTES: usize = OFFSET_TABLE;

/// Words of the grid barrier, binding 0 (must match `kernels-wgsl/device/grid_barrier.wgsl`).
pub const BARRIER_BYTES: u64 = 16;

/// The word of the grid barrier that is not 0 once workgroups have timed out: nothing runs until it is cleared.
pub const TIMED_OUT_WORD: usize = 2;

/// Bytes of workgroup memory that the grid barrier takes.
const BARRIER_MEMORY: u32 = 4;

/// The file of the grid barrier.
const GRID_BARRIER: &str = "device/grid_barrier";

/// The file of values that announce themselves.
const ANNOUNCED: &str = "device/announced";

/// A kernel as a stage of a layer.
#[derive(Clone, Debug)]
pub struct StagePart<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Workgroups of its dispatch.
    pub workgroups: u64,
    /// Its uniform block.
    pub params: Params,
    /// Where its operands are, by binding number.
    pub slices: Vec<(u32, BufferSlice)>,
    /// Whether it must wait for the stages before it.
    pub needs_grid_sync: bool,
    /// Operands whose values announce themselves, by binding number.
    pub announced: Vec<(u32, AnnouncedOperand)>,
    /// Whether it runs behind all layers.
    pub is_last: bool,
}

/// Whether a kernel can be a stage for workgroups of that many threads: it is as wide, or so narrow that several of its
/// workgroups fit side by side and share no workgroup memory.
pub fn can_be_stage(kernel: &Kernel, threads: u32) -> bool {
    let own = kernel.facts.threads();
    own == threads || (threads.is_multiple_of(own) && kernel.facts.workgroup_memory == 0)
}

/// Workgroup memory of a stage, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageMemory {
    /// What it shares with the stages before and after it.
    pub shared: u32,
    /// What is its own throughout.
    pub own: u32,
}

impl StageMemory {
    /// Of a kernel.
    pub fn of(kernel: &Kernel) -> Self {
        let shared = kernel.facts.scratch * 16;
        StageMemory { shared, own: kernel.facts.workgroup_memory.saturating_sub(shared) }
    }

    /// Bytes that such stages take as one kernel.
    pub fn of_all(stages: impl IntoIterator<Item = StageMemory>) -> u32 {
        let add = |(shared, own): (u32, u32), stage: StageMemory| (shared.max(stage.shared), own + stage.own);
        let (shared, own) = stages.into_iter().fold((0, 0), add);
        shared + own + BARRIER_MEMORY
    }
}

/// What the offset table holds before the offsets, `[layers, columns]`: how many layers there are, and how many cells a
/// bank has.
pub fn table_head(layers: u32, announcing: Option<&Announcing>) -> [u32; TABLE_HEAD] {
    [layers, announcing.map_or(0, |announcing| announcing.bank(layers)), 0, 0]
}

/// Fuses the stages of a layer. Binding 0 is the grid barrier of [`BARRIER_BYTES`], binding 1 the offset table of
/// [`OFFSET_TABLE_BYTES`], then come the buffers, and where values announce themselves their cells, twice. Its dispatch has `launch.workgroups` workgroups. It is one kernel for any
/// number of layers: the code of another would have to be fetched anew.
///
/// # Errors
/// A kernel cannot be a stage, or the device cannot run all of them as one.
pub fn fuse(
    parts: &[StagePart<'_>],
    buffers: &[BoundBuffer],
    launch: Launch,
    announcing: Option<&Announcing>,
    limits: &Limits,
    catalogue: &Catalogue,
) -> Result<Kernel, KernelError> {
    if let Some(missing) = NEEDS.into_iter().find(|feature| !limits.features.contains(feature)) {
        return Err(Refusal::Feature(missing).into());
    }
    if !(1..=limits.workgroups_per_dimension).contains(&launch.workgroups) {
        return Err(Refusal::None("it has no workgroups, or more than the device dispatches").into());
    }
    if parts.iter().any(|part| !can_be_stage(part.kernel, launch.threads)) {
        return Err(Refusal::Stage("its workgroups are of another size").into());
    }
    let texts: Vec<Part<'_>> = parts
        .iter()
        .map(|part| Part {
            text: &part.kernel.wgsl,
            facts: &part.kernel.facts,
            workgroups: part.workgroups,
            params: &part.params,
            slices: &part.slices,
            needs_grid_sync: part.needs_grid_sync,
            announced: &part.announced,
            is_last: part.is_last,
        })
        .collect();
    let library = catalogue.library();
    let barrier = library.text(&Arc::from(GRID_BARRIER))?;
    let device = announcing.map(|_| library.text(&Arc::from(ANNOUNCED))).transpose()?;
    let text =
        link(&texts, buffers, launch, barrier, announcing.zip(device)).map_err(|NotAStage(why)| Refusal::Stage(why))?;
    let precision = parts.iter().map(|part| part.kernel.facts.precision).max().unwrap_or_default();
    let needs = parts.iter().flat_map(|part| part.kernel.facts.features.iter().copied()).chain(NEEDS);
    let facts = reflect(&text, precision, &|_| None, &needs.collect::<BTreeSet<_>>())?;
    let label = match announcing {
        None => format!("persistent WG={}", launch.threads),
        Some(_) => format!("persistent WG={} announced", launch.threads),
    };
    let kernel = Kernel::assemble(label, text, facts, launch.workgroups.into(), limits)?;
    let is_trusted = parts.iter().all(|part| part.kernel.is_trusted)
        && library.is_embedded(GRID_BARRIER)
        && (announcing.is_none() || library.is_embedded(ANNOUNCED));
    Ok(Kernel { is_trusted, ..kernel })
}
