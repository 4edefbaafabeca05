//! Which dispatches become one: ranges of layers that run the same kernels on operands in the same buffers.

use crate::gpu::step::BoundRange;
use std::ops::Range;
use wgoose_kernels::persistent::{BoundBuffer, BufferSlice, Offset, can_be_stage};
use wgoose_kernels::{Access, Binding, Kernel, Params};

/// A dispatch with its operands.
pub(super) struct Located<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) params: Params,
    pub(super) workgroups: u64,
    /// The layer it belongs to.
    pub(super) layer: Option<u32>,
    pub(super) ranges: Vec<BoundRange>,
}

/// Layers that do the same: the dispatches of each, as indices.
pub(super) type LayerRange = Vec<Range<usize>>;

/// Cuts dispatches into layers, and joins those that are alike. A dispatch outside of layers stands alone, and so does one
/// that cannot be a stage for workgroups of that many threads.
pub(super) fn layer_ranges(all: &[Located<'_>], threads: u32, largest: u64) -> Vec<LayerRange> {
    let kind = |d: &Located<'_>| (d.layer, can_be_stage(d.kernel, threads));
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
fn alike(first: &[Located<'_>], other: &[Located<'_>], largest: u64) -> bool {
    let near = |a: &BoundRange, b: &BoundRange| {
        a.binding == b.binding && a.buffer == b.buffer && (b.offset + b.size).abs_diff(a.offset) <= largest
    };
    let same = |a: &Located<'_>, b: &Located<'_>| {
        a.kernel.hash == b.kernel.hash
            && a.params == b.params
            && a.workgroups == b.workgroups
            && operands(a).count() == operands(b).count()
            && operands(a).zip(operands(b)).all(|((a, _), (b, _))| near(a, b))
    };
    first[0].layer.is_some() && first.len() == other.len() && first.iter().zip(other).all(|(a, b)| same(a, b))
}

/// What a dispatch binds but for its uniform block, and how.
fn operands<'a>(dispatch: &'a Located<'_>) -> impl Iterator<Item = (&'a BoundRange, &'a Binding)> {
    let binding = |number: u32| dispatch.kernel.facts.bindings.iter().find(move |b| b.number == number);
    let operands = dispatch.ranges.iter().filter_map(move |range| Some((range, binding(range.binding)?)));
    operands.filter(|(_, binding)| binding.access != Access::Uniform)
}

/// How the operands of a range of layers are bound.
pub(super) struct Layout {
    pub(super) buffers: Vec<BoundBuffer>,
    /// What each of them binds.
    pub(super) bound: Vec<BoundRange>,
    /// For each dispatch of a layer, where its operands are.
    pub(super) slices: Vec<Vec<(u32, BufferSlice)>>,
    /// The offset table, `[layers, columns]`.
    pub(super) offsets: Vec<u32>,
    pub(super) columns: usize,
}

/// Lays out the operands of a range of layers; `None` if one is no array of numbers.
pub(super) fn layout(all: &[Located<'_>], range: &LayerRange) -> Option<Layout> {
    let each = || range.iter().flat_map(|layer| &all[layer.clone()]);
    let written = |buffer: &wgpu::Buffer| {
        each().flat_map(operands).any(|(r, b)| r.buffer == *buffer && b.access == Access::ReadWrite)
    };
    let find = |bound: &[BoundRange], buffers: &[BoundBuffer], buffer: &wgpu::Buffer, element: &str| {
        bound.iter().zip(buffers).position(|(range, b)| range.buffer == *buffer && b.element == element)
    };
    let (mut buffers, mut bound): (Vec<BoundBuffer>, Vec<BoundRange>) = (Vec::new(), Vec::new());
    for (operand, binding) in each().flat_map(operands) {
        let element = binding.element?.wgsl;
        let at = find(&bound, &buffers, &operand.buffer, element).unwrap_or_else(|| {
            buffers.push(BoundBuffer { element: element.to_owned(), is_written: written(&operand.buffer) });
            let (binding, buffer) = (buffers.len() as u32 + 1, operand.buffer.clone());
            bound.push(BoundRange { binding, buffer, offset: operand.offset, size: operand.size });
            buffers.len() - 1
        });
        let whole = &mut bound[at];
        let end = (whole.offset + whole.size).max(operand.offset + operand.size);
        whole.offset = whole.offset.min(operand.offset);
        whole.size = end - whole.offset;
    }
    let first = range.first()?;
    let mut columns: Vec<Vec<u32>> = Vec::new();
    let mut slices = Vec::new();
    for stage in 0..first.len() {
        let mut own = Vec::new();
        for (i, (operand, binding)) in operands(&all[first.start + stage]).enumerate() {
            let element = binding.element?;
            let buffer = find(&bound, &buffers, &operand.buffer, element.wgsl)?;
            let of_layer = |layer: &Range<usize>| {
                let (operand, _) = operands(&all[layer.start + stage]).nth(i)?;
                u32::try_from((operand.offset - bound[buffer].offset) / u64::from(element.bytes)).ok()
            };
            let offsets: Vec<u32> = range.iter().map(of_layer).collect::<Option<_>>()?;
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
    let offsets = (0..range.len()).flat_map(|layer| columns.iter().map(move |column| column[layer])).collect();
    Some(Layout { buffers, bound, slices, offsets, columns: columns.len() })
}

/// For each dispatch of a layer, whether it needs a grid barrier before it: it touches what an earlier one wrote, or writes
/// what an earlier one touches. The first one waits for the layer before.
pub(super) fn grid_syncs(layer: &[Located<'_>]) -> Vec<bool> {
    let mut since = 0;
    let mut needed = Vec::new();
    for (i, dispatch) in layer.iter().enumerate() {
        let conflict = layer[since..i].iter().any(|before| conflict(before, dispatch));
        if conflict {
            since = i;
        }
        needed.push(i == 0 || conflict);
    }
    needed
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
