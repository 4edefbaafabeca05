//! Which dispatches of a step become one: runs of layers that do the same on operands that lie alike.

use crate::gpu::step::BoundRange;
use std::ops::Range;
use wgoose_kernels::persistent::{Base, Place, Pool, can_be_stage};
use wgoose_kernels::{Access, Kernel};

/// A dispatch with its operands.
pub(super) struct Located<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) params: [u32; 12],
    pub(super) units: u64,
    /// The layer it belongs to.
    pub(super) layer: Option<u32>,
    pub(super) ranges: Vec<BoundRange>,
}

/// Layers that do the same: the dispatches of each, as indices.
pub(super) type Run = Vec<Range<usize>>;

/// Cuts dispatches into layers, and puts together those that are alike. What belongs to no layer stands alone, and so does
/// what cannot be a stage for `threads` invocations.
pub(super) fn runs(all: &[Located<'_>], threads: u32, largest: u64) -> Vec<Run> {
    let kind = |d: &Located<'_>| (d.layer, can_be_stage(d.kernel, threads));
    let mut layers: Vec<Range<usize>> = Vec::new();
    for (i, dispatch) in all.iter().enumerate() {
        match layers.last_mut() {
            Some(last) if kind(&all[last.start]) == kind(dispatch) => last.end = i + 1,
            _ => layers.push(i..i + 1),
        }
    }
    let mut runs: Vec<Run> = Vec::new();
    for layer in layers {
        match runs.last_mut() {
            Some(run) if alike(&all[run[0].clone()], &all[layer.clone()], largest) => run.push(layer),
            _ => runs.push(vec![layer]),
        }
    }
    runs
}

/// Whether a layer can follow the first one of a run: the same kernels on operands in the same buffers, near enough to be
/// bound as one.
fn alike(first: &[Located<'_>], other: &[Located<'_>], largest: u64) -> bool {
    let near = |a: &BoundRange, b: &BoundRange| {
        a.binding == b.binding && a.buffer == b.buffer && (b.offset + b.size).abs_diff(a.offset) <= largest
    };
    let same = |a: &Located<'_>, b: &Located<'_>| {
        a.kernel.hash == b.kernel.hash
            && a.params == b.params
            && a.units == b.units
            && operands(a).count() == operands(b).count()
            && operands(a).zip(operands(b)).all(|((a, _), (b, _))| near(a, b))
    };
    first[0].layer.is_some() && first.len() == other.len() && first.iter().zip(other).all(|(a, b)| same(a, b))
}

/// What a dispatch binds but for its uniform block, and how.
fn operands<'a>(dispatch: &'a Located<'_>) -> impl Iterator<Item = (&'a BoundRange, &'a wgoose_kernels::Binding)> {
    let binding = |number: u32| dispatch.kernel.reflection.bindings.iter().find(move |b| b.number == number);
    let operands = dispatch.ranges.iter().filter_map(move |range| Some((range, binding(range.binding)?)));
    operands.filter(|(_, binding)| binding.access != Access::Uniform)
}

/// How the operands of a run are bound.
pub(super) struct Layout {
    pub(super) pools: Vec<Pool>,
    /// What each pool binds.
    pub(super) ranges: Vec<BoundRange>,
    /// For each dispatch of a layer, where its operands lie.
    pub(super) places: Vec<Vec<(u32, Place)>>,
    /// `[layers, columns]`.
    pub(super) bases: Vec<u32>,
    pub(super) columns: usize,
}

/// Lays out the operands of a run; `None` if one is no array of numbers.
pub(super) fn layout(all: &[Located<'_>], run: &Run) -> Option<Layout> {
    let each = || run.iter().flat_map(|layer| &all[layer.clone()]);
    let written = |buffer: &wgpu::Buffer| {
        each().flat_map(operands).any(|(r, b)| r.buffer == *buffer && b.access == Access::ReadWrite)
    };
    let find = |ranges: &[BoundRange], pools: &[Pool], buffer: &wgpu::Buffer, element: &str| {
        ranges.iter().zip(pools).position(|(range, pool)| range.buffer == *buffer && pool.element == element)
    };
    let (mut pools, mut ranges): (Vec<Pool>, Vec<BoundRange>) = (Vec::new(), Vec::new());
    for (range, binding) in each().flat_map(operands) {
        let element = binding.element?.wgsl;
        let pool = find(&ranges, &pools, &range.buffer, element).unwrap_or_else(|| {
            pools.push(Pool { element: element.to_owned(), is_written: written(&range.buffer) });
            let binding = pools.len() as u32 + 1;
            ranges.push(BoundRange { binding, buffer: range.buffer.clone(), offset: range.offset, size: range.size });
            pools.len() - 1
        });
        let bound = &mut ranges[pool];
        let end = (bound.offset + bound.size).max(range.offset + range.size);
        bound.offset = bound.offset.min(range.offset);
        bound.size = end - bound.offset;
    }
    let first = run.first()?;
    let base = |range: &BoundRange, pool: usize, bytes: u32| (range.offset - ranges[pool].offset) / u64::from(bytes);
    let mut columns: Vec<Vec<u32>> = Vec::new();
    let mut places = Vec::new();
    for stage in 0..first.len() {
        let mut own = Vec::new();
        for (i, (range, binding)) in operands(&all[first.start + stage]).enumerate() {
            let element = binding.element?;
            let pool = find(&ranges, &pools, &range.buffer, element.wgsl)?;
            let of_layer = |layer: &Range<usize>| {
                let (range, _) = operands(&all[layer.start + stage]).nth(i)?;
                u32::try_from(base(range, pool, element.bytes)).ok()
            };
            let bases: Vec<u32> = run.iter().map(of_layer).collect::<Option<_>>()?;
            let base = match bases.iter().all(|b| *b == bases[0]) {
                true => Base::Fixed(bases[0]),
                false => Base::PerLayer(columns.iter().position(|c| *c == bases).unwrap_or_else(|| {
                    columns.push(bases);
                    columns.len() - 1
                })),
            };
            own.push((range.binding, Place { pool, base }));
        }
        places.push(own);
    }
    let bases = (0..run.len()).flat_map(|layer| columns.iter().map(move |column| column[layer])).collect();
    Some(Layout { pools, ranges, places, bases, columns: columns.len() })
}

/// For each dispatch of a layer, whether it must wait for those before it: it touches what one of them wrote, or writes
/// what one of them touches. The first one waits for the layer before.
pub(super) fn meetings(layer: &[Located<'_>]) -> Vec<bool> {
    let mut since = 0;
    let mut meets = Vec::new();
    for (i, dispatch) in layer.iter().enumerate() {
        let conflict = layer[since..i].iter().any(|before| conflict(before, dispatch));
        if conflict {
            since = i;
        }
        meets.push(i == 0 || conflict);
    }
    meets
}

fn conflict(before: &Located<'_>, after: &Located<'_>) -> bool {
    operands(before).any(|(a, how_a)| {
        operands(after).any(|(b, how_b)| {
            a.buffer == b.buffer
                && a.offset < b.offset + b.size
                && b.offset < a.offset + a.size
                && (how_a.access == Access::ReadWrite || how_b.access == Access::ReadWrite)
        })
    })
}
