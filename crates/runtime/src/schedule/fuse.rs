//! The persistent kernel as a rewrite: ranges of layers that run the same kernels on operands in the same buffers become a
//! dispatch each, whose workgroups stay resident. Nothing of it needs a device.

mod announced;

use super::buffer::{BufferId, BufferRange};
use super::memory::{Memory, Operand};
use super::{Bound, Dispatch, Recording};
use announced::{Announced, AnnouncedStage};
use std::collections::BTreeSet;
use std::ops::Range;
use wgoose_graph::Graph;
use wgoose_kernels::persistent::{
    Announcing, BARRIER_BYTES, BoundBuffer, BufferSlice, CellCopy, Launch, OFFSET_TABLE_BYTES, Offset, StagePart,
    can_be_stage, fuse as fuse_stages, table_head,
};
use wgoose_kernels::{Access, Binding, Catalogue, HandOver, Kernel, KernelError, Limits, Params, PlanError, Refusal};

/// Why a pass has no fused form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfused {
    /// A kernel cannot be a stage of a layer, or all of them together not.
    #[error("{kernel} cannot be a stage: {why}")]
    Stage {
        /// The kernel, or all of the layer's.
        kernel: String,
        /// What the linker or the device says.
        why: Refusal,
    },
    /// An operand is a struct, or lies further than a number of elements can say.
    #[error("binding {binding} of {kernel} is no array of numbers within reach")]
    NotNumbers {
        /// The kernel.
        kernel: String,
        /// Its binding.
        binding: u32,
    },
    /// The layers' offsets take more than a uniform block holds.
    #[error("the offsets of {layers} layers take {need} bytes, an offset table holds {OFFSET_TABLE_BYTES}")]
    OffsetTable {
        /// How many layers are alike.
        layers: usize,
        /// Bytes.
        need: usize,
    },
    /// No two dispatches of a layer can be stages of one: why the first of them cannot.
    #[error("no two dispatches of the plan's kernels can be stages of one: {0}")]
    Alone(Box<Unfused>),
    /// No layer has two dispatches.
    #[error("no layer has two dispatches")]
    Single,
}

/// Why a rewrite came to nothing: the pass has no such form, or a file is wrong.
#[derive(Debug, thiserror::Error)]
pub enum FuseError {
    /// The pass has no such form.
    #[error(transparent)]
    Unfused(#[from] Unfused),
    /// A kernel's file is wrong.
    #[error(transparent)]
    Text(#[from] PlanError),
}

/// A pass in which layers are dispatches.
#[derive(Clone, Debug)]
pub struct Fused {
    /// What it runs.
    pub recording: Recording,
    /// Layers of which several dispatches became one.
    pub layers: usize,
}

/// A dispatch with its operands.
struct Placed<'a> {
    dispatch: &'a Dispatch,
    kernel: &'a Kernel,
    /// The layer it belongs to.
    layer: Option<u32>,
    /// Whether it loads what it stores.
    is_in_place: bool,
    operands: &'a [Operand],
}

impl<'a> Placed<'a> {
    /// What it binds but for its uniform block, and how.
    fn stored(&self) -> impl Iterator<Item = (&'a Operand, &'a Binding)> {
        let bindings = &self.kernel.facts.bindings;
        let with = |operand: &'a Operand| Some((operand, bindings.iter().find(|b| b.number == operand.binding)?));
        self.operands.iter().filter_map(with).filter(|(_, binding)| binding.access != Access::Uniform)
    }

    /// What of that it does not find in cells, as stage of a layer in which values announce themselves.
    fn in_buffers(
        &self,
        stage: usize,
        announced: Option<&Announced>,
    ) -> impl Iterator<Item = (&'a Operand, &'a Binding)> {
        self.stored().filter(move |(operand, binding)| {
            announced.is_none_or(|a| a.is_in_buffer(stage, self, binding, operand.range.buffer))
        })
    }
}

/// Fuses what layers of a pass do, for `workgroups` that stay resident and hand values over so.
///
/// # Errors
/// [`Unfused`]: the pass has no such form. A kernel's file is wrong.
pub fn fuse(
    graph: &Graph,
    (recording, memory): (&Recording, &Memory),
    (workgroups, hand_over): (u32, HandOver),
    limits: &Limits,
    catalogue: &Catalogue,
) -> Result<Fused, FuseError> {
    let all: Vec<Placed<'_>> = recording
        .dispatches
        .iter()
        .zip(&memory.operands)
        .map(|(dispatch, operands)| Placed {
            dispatch,
            kernel: &recording.kernels[dispatch.kernel],
            layer: graph.op(dispatch.node).layer,
            is_in_place: graph.op(dispatch.node).op.in_place().is_some(),
            operands,
        })
        .collect();
    let threads = all.iter().filter(|d| d.layer.is_some()).map(|d| d.kernel.facts.threads()).max().unwrap_or(1);
    let mut fused = Recording {
        kernels: Vec::new(),
        dispatches: Vec::new(),
        offsets: Vec::new(),
        cells: Vec::new(),
        ..recording.clone()
    };
    let mut layers = BTreeSet::new();
    let mut alone = None;
    for range in layer_ranges(&all, threads, limits.storage_binding) {
        let launch = Launch { columns: 0, workgroups, threads };
        match one_kernel(&all, &range, (launch, hand_over), limits, catalogue) {
            Ok(OneKernel { kernel, mut bound, offsets, cells }) => {
                if cells > 0 {
                    // As words, and four at a time.
                    bound.extend([BufferRange::whole(BufferId::Cells(fused.cells.len()), cells); 2]);
                    fused.cells.push(cells);
                }
                let bindings = bound.into_iter().enumerate().map(|(i, range)| (i as u32 + 2, Bound::Range(range)));
                let table = BufferRange::whole(BufferId::Offsets(fused.offsets.len()), OFFSET_TABLE_BYTES as u64);
                let barrier = BufferRange::whole(BufferId::GridBarrier, BARRIER_BYTES);
                let bindings = bindings.chain([(0, Bound::Range(barrier)), (1, Bound::Range(table))]).collect();
                fused.offsets.push(offsets);
                let kernel = number_of(&mut fused.kernels, kernel);
                let node = all[range[0].start].dispatch.node;
                let grid = [workgroups, 1, 1];
                fused.dispatches.push(Dispatch { node, kernel, bindings, params: Params::default(), grid });
                if range[0].len() > 1 {
                    layers.extend(range.iter().filter_map(|layer| all[layer.start].layer));
                }
            }
            // What stands alone, such as the head, may stay as it is.
            Err(FuseError::Unfused(why)) if range.len() == 1 => {
                if all[range[0].start].layer.is_some() {
                    alone.get_or_insert(why);
                }
                for placed in &all[range[0].clone()] {
                    let kernel = number_of(&mut fused.kernels, placed.kernel.clone());
                    fused.dispatches.push(Dispatch { kernel, ..placed.dispatch.clone() });
                }
            }
            Err(why) => return Err(why),
        }
    }
    if layers.is_empty() {
        return Err(alone.map_or(Unfused::Single, |why| Unfused::Alone(Box::new(why))).into());
    }
    Ok(Fused { recording: fused, layers: layers.len() })
}

/// The number of a kernel among those that a recording has, each once.
fn number_of(kernels: &mut Vec<Kernel>, kernel: Kernel) -> usize {
    kernels.iter().position(|known| known.hash == kernel.hash).unwrap_or_else(|| {
        kernels.push(kernel);
        kernels.len() - 1
    })
}

/// Layers that do the same: the dispatches of each, as indices.
type LayerRange = Vec<Range<usize>>;

/// Cuts dispatches into layers, and joins those that are alike. A dispatch outside of layers stands alone, and so does one
/// that cannot be a stage for workgroups of that many threads.
fn layer_ranges(all: &[Placed<'_>], threads: u32, largest: u64) -> Vec<LayerRange> {
    let kind = |d: &Placed<'_>| (d.layer, can_be_stage(d.kernel, threads));
    let mut layers: Vec<Range<usize>> = Vec::new();
    for (i, dispatch) in all.iter().enumerate() {
        match layers.last_mut() {
            Some(last) if kind(&all[last.start]) == kind(dispatch) => last.end = i + 1,
            _ => layers.push(i..i + 1),
        }
    }
    let mut ranges: Vec<LayerRange> = Vec::new();
    for layer in layers {
        match ranges.last_mut() {
            Some(range) if alike(&all[range[0].clone()], &all[layer.clone()], largest) => range.push(layer),
            _ => ranges.push(vec![layer]),
        }
    }
    ranges
}

/// Whether a layer can follow the first one of a range: the same kernels on operands in the same buffers, near enough to be
/// bound as one.
fn alike(first: &[Placed<'_>], other: &[Placed<'_>], largest: u64) -> bool {
    let near = |a: &Operand, b: &Operand| {
        a.binding == b.binding && a.range.buffer == b.range.buffer && b.range.end().abs_diff(a.range.offset) <= largest
    };
    let same = |a: &Placed<'_>, b: &Placed<'_>| {
        a.kernel.hash == b.kernel.hash
            && a.dispatch.params == b.dispatch.params
            && a.kernel.workgroups == b.kernel.workgroups
            && a.stored().count() == b.stored().count()
            && a.stored().zip(b.stored()).all(|((a, _), (b, _))| near(a, b))
    };
    first[0].layer.is_some() && first.len() == other.len() && first.iter().zip(other).all(|(a, b)| same(a, b))
}

/// A range of layers as a kernel.
struct OneKernel {
    kernel: Kernel,
    /// What its buffers bind.
    bound: Vec<BufferRange>,
    /// Its offset table.
    offsets: Vec<u32>,
    /// Bytes of its cells.
    cells: u64,
}

fn one_kernel(
    all: &[Placed<'_>],
    range: &LayerRange,
    (launch, hand_over): (Launch, HandOver),
    limits: &Limits,
    catalogue: &Catalogue,
) -> Result<OneKernel, FuseError> {
    let layer = &all[range[0].clone()];
    let announced = match hand_over {
        HandOver::Barrier => None,
        HandOver::Announced => Announced::of(all, range).filter(|announced| announced.fits(range.len(), limits)),
    };
    let Pools { buffers, bound, slices, offsets, columns, announcing } = pools(all, range, announced.as_ref())?;
    let stages = announced.map_or_else(|| behind_barriers(layer), |announced| announced.stages);
    let parts: Vec<StagePart<'_>> = layer
        .iter()
        .zip(slices)
        .zip(stages)
        .map(|((placed, slices), AnnouncedStage { operands, needs_grid_sync, is_last })| StagePart {
            kernel: placed.kernel,
            workgroups: placed.kernel.workgroups,
            params: placed.dispatch.params,
            slices,
            needs_grid_sync,
            announced: operands,
            is_last,
        })
        .collect();
    let (launch, announcing) = (Launch { columns, ..launch }, announcing.as_ref());
    let fused = |parts: &[StagePart<'_>]| fuse_stages(parts, &buffers, launch, announcing, limits, catalogue);
    let kernel = match fused(&parts) {
        Ok(kernel) => kernel,
        Err(KernelError::Refused(why)) => {
            let culprit = parts.iter().find(|part| fused(std::slice::from_ref(part)).is_err());
            let kernel = culprit.map_or("all of a layer", |part| &part.kernel.label).to_owned();
            return Err(Unfused::Stage { kernel, why }.into());
        }
        Err(KernelError::Text(wrong)) => return Err(PlanError::from(wrong).into()),
    };
    let layers = range.len() as u32;
    let offsets = [&table_head(layers, announcing)[..], &offsets].concat();
    match size_of_val(&offsets[..]) {
        need if need > OFFSET_TABLE_BYTES => Err(Unfused::OffsetTable { layers: range.len(), need }.into()),
        _ => Ok(OneKernel { kernel, bound, offsets, cells: announcing.map_or(0, |cells| cells.bytes(layers)) }),
    }
}

/// How the operands of a range of layers are bound.
struct Pools {
    buffers: Vec<BoundBuffer>,
    /// What each of them binds.
    bound: Vec<BufferRange>,
    /// For each dispatch of a layer, where its operands are.
    slices: Vec<Vec<(u32, BufferSlice)>>,
    /// `[layers, columns]`.
    offsets: Vec<u32>,
    columns: usize,
    /// What announces itself.
    announcing: Option<Announcing>,
}

/// Lays out the operands of a range of layers: each buffer once for each type of its elements.
fn pools(all: &[Placed<'_>], range: &LayerRange, announced: Option<&Announced>) -> Result<Pools, Unfused> {
    let each = || range.iter().flat_map(|layer| &all[layer.clone()]);
    let written = |buffer: BufferId| {
        each().flat_map(Placed::stored).any(|(o, b)| o.range.buffer == buffer && b.access == Access::ReadWrite)
    };
    let not_numbers =
        |placed: &Placed<'_>, binding: u32| Unfused::NotNumbers { kernel: placed.kernel.label.clone(), binding };
    let find = |bound: &[BufferRange], buffers: &[BoundBuffer], buffer: BufferId, element: &str| {
        bound.iter().zip(buffers).position(|(range, b)| range.buffer == buffer && b.element == element)
    };
    let (mut buffers, mut bound): (Vec<BoundBuffer>, Vec<BufferRange>) = (Vec::new(), Vec::new());
    let mut bind = |range: BufferRange, element: &str| {
        let at = find(&bound, &buffers, range.buffer, element).unwrap_or_else(|| {
            buffers.push(BoundBuffer { element: element.to_owned(), is_written: written(range.buffer) });
            bound.push(range);
            buffers.len() - 1
        });
        let (offset, end) = (bound[at].offset.min(range.offset), bound[at].end().max(range.end()));
        (bound[at].offset, bound[at].bytes) = (offset, end - offset);
    };
    for layer in range {
        for (stage, placed) in all[layer.clone()].iter().enumerate() {
            for (operand, binding) in placed.in_buffers(stage, announced) {
                let element = binding.element.ok_or_else(|| not_numbers(placed, operand.binding))?.wgsl;
                bind(operand.range, element);
            }
        }
    }
    let copied = announced.iter().flat_map(|announced| announced.carried.iter().chain(&announced.results));
    copied.for_each(|(_, range)| bind(*range, "f32"));
    let first = &all[range[0].clone()];
    let mut columns: Vec<Vec<u32>> = Vec::new();
    let mut slices = Vec::new();
    for (stage, placed) in first.iter().enumerate() {
        let mut own = Vec::new();
        for (i, (operand, binding)) in placed.in_buffers(stage, announced).enumerate() {
            let wrong = || not_numbers(placed, operand.binding);
            let element = binding.element.ok_or_else(wrong)?;
            let buffer = find(&bound, &buffers, operand.range.buffer, element.wgsl).ok_or_else(wrong)?;
            let of_layer = |layer: &Range<usize>| {
                let (operand, _) = all[layer.start + stage].in_buffers(stage, announced).nth(i)?;
                u32::try_from((operand.range.offset - bound[buffer].offset) / u64::from(element.bytes)).ok()
            };
            let offsets: Vec<u32> = range.iter().map(of_layer).collect::<Option<_>>().ok_or_else(wrong)?;
            let offset = match offsets.iter().all(|o| *o == offsets[0]) {
                true => Offset::Fixed(offsets[0]),
                false => Offset::PerLayer(columns.iter().position(|c| *c == offsets).unwrap_or_else(|| {
                    columns.push(offsets);
                    columns.len() - 1
                })),
            };
            own.push((operand.binding, BufferSlice { buffer, offset }));
        }
        slices.push(own);
    }
    let copies = |of: &[(u32, BufferRange)]| -> Vec<CellCopy> {
        let copy = |(cells, range): &(u32, BufferRange)| {
            let buffer = find(&bound, &buffers, range.buffer, "f32")?;
            let elements = u32::try_from((range.offset - bound[buffer].offset) / 4).ok()?;
            Some(CellCopy { cells: *cells, buffer, elements, count: u32::try_from(range.bytes / 4).ok()? })
        };
        of.iter().filter_map(copy).collect()
    };
    let announcing = announced.map(|announced| Announcing {
        cells_per_layer: announced.cells,
        carried: copies(&announced.carried),
        results: copies(&announced.results),
    });
    let offsets = (0..range.len()).flat_map(|layer| columns.iter().map(move |column| column[layer])).collect();
    Ok(Pools { buffers, bound, slices, offsets, columns: columns.len(), announcing })
}

/// For each dispatch of a layer, whether it needs a grid barrier before it: it touches what an earlier one wrote, or writes
/// what an earlier one touches. The first one waits for the layer before.
fn behind_barriers(layer: &[Placed<'_>]) -> Vec<AnnouncedStage> {
    let mut since = 0;
    let mut stages = Vec::new();
    for (i, dispatch) in layer.iter().enumerate() {
        let conflict = layer[since..i].iter().any(|before| conflict(before, dispatch));
        if conflict {
            since = i;
        }
        stages.push(AnnouncedStage { needs_grid_sync: i == 0 || conflict, ..Default::default() });
    }
    stages
}

fn conflict(before: &Placed<'_>, after: &Placed<'_>) -> bool {
    before.stored().any(|(a, how_a)| {
        after.stored().any(|(b, how_b)| {
            a.range.overlaps(&b.range) && (how_a.access == Access::ReadWrite || how_b.access == Access::ReadWrite)
        })
    })
}

#[cfg(test)]
mod tests;
