//! The memory of a pass, as plain data: allocation, prediction, bindings, fusion and printing read it.

use super::buffer::{BufferId, BufferRange};
use super::states::StateLayout;
use super::{Bound, Recording, Table};
use std::collections::BTreeMap;
use std::fmt;
use wgoose_graph::{BatchShape, Weight};
use wgoose_kernels::{Access, Limits};

/// Bytes of a dispatch's uniform block.
pub(crate) const PARAMS: u64 = 48;

/// Tiles whose workgroups a kernel can count: as `MAX_TILES` in kernels-wgsl/lib/coop/partials.wgsl.
pub(crate) const ARRIVALS: u32 = 4096;

/// Segments of the table that kernels bind as a uniform block: as `MOST_SEGMENTS` in kernels-wgsl/lib/segment_table/uniform.wgsl.
pub(crate) const UNIFORM_SEGMENTS: u32 = 1024;

/// What a dispatch binds at a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The binding's number.
    pub binding: u32,
    /// What is bound.
    pub range: BufferRange,
}

/// Where a pass finds what it does not allocate itself.
pub(crate) struct Places<'a> {
    /// The states.
    pub(crate) states: &'a StateLayout,
    /// Where dispatch `i` finds a shard of a weight.
    pub(crate) weight: &'a dyn Fn(usize, Weight, usize) -> BufferRange,
}

/// The memory of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of each buffer that the pass must have, but for weights and states, which are there for all passes.
    pub buffers: BTreeMap<BufferId, u64>,
    /// What each dispatch binds.
    pub operands: Vec<Vec<Operand>>,
}

impl Memory {
    /// Lays out a pass over a batch.
    pub(crate) fn new(recording: &Recording, batch: &BatchShape, places: &Places<'_>, limits: &Limits) -> Self {
        let buffers = buffers(recording, batch, limits);
        let distance = params_distance(limits);
        let place = |i: usize, bound: Bound| match bound {
            Bound::Params => BufferRange { buffer: BufferId::Params, offset: i as u64 * distance, bytes: PARAMS },
            Bound::Slot { slot, offset, size } => BufferRange { buffer: BufferId::Slot(slot), offset, bytes: size },
            Bound::Weight(weight, shard) => (places.weight)(i, weight, shard),
            Bound::State(state) => places.states.tensor(state).range(),
            Bound::Table(table) => BufferRange::whole(BufferId::Table(table), buffers[&BufferId::Table(table)]),
            Bound::Range(range) => range,
        };
        let of_dispatch = |(i, dispatch): (usize, &super::Dispatch)| {
            let operand = |(binding, bound): &(u32, Bound)| Operand { binding: *binding, range: place(i, *bound) };
            dispatch.bindings.iter().map(operand).collect()
        };
        let operands = recording.dispatches.iter().enumerate().map(of_dispatch).collect();
        Memory { buffers, operands }
    }
}

impl Memory {
    /// The same with what a dispatch writes of activations in buffers of its own, and their bytes: no buffer of activations is
    /// both written and read, so that no dispatch waits for another.
    pub(crate) fn independent(&self, recording: &Recording) -> (Memory, Vec<u64>) {
        let (mut free, mut scratch) = (self.clone(), Vec::new());
        for (dispatch, operands) in recording.dispatches.iter().zip(&mut free.operands) {
            let bindings = &recording.kernels[dispatch.kernel].facts.bindings;
            let writes = |binding: u32| bindings.iter().any(|b| b.number == binding && b.access == Access::ReadWrite);
            for operand in operands {
                if matches!(operand.range.buffer, BufferId::Slot(_)) && writes(operand.binding) {
                    operand.range = BufferRange::whole(BufferId::Scratch(scratch.len()), operand.range.bytes);
                    scratch.push(storage_bytes(operand.range.bytes));
                }
            }
        }
        (free, scratch)
    }
}

impl fmt::Display for Memory {
    /// One line a buffer, then one a dispatch.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (buffer, bytes) in &self.buffers {
            writeln!(f, "{buffer} {bytes} bytes")?;
        }
        for (i, operands) in self.operands.iter().enumerate() {
            write!(f, "{i}")?;
            operands.iter().try_for_each(|operand| write!(f, " {}:{}", operand.binding, operand.range))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Bytes of each buffer that a pass over a batch must have.
pub(crate) fn buffers(recording: &Recording, batch: &BatchShape, limits: &Limits) -> BTreeMap<BufferId, u64> {
    let tables = [
        (Table::Tokens, batch.tokens),
        (Table::TokenSegments, batch.tokens),
        (Table::Segments, 4 * batch.segments.max(UNIFORM_SEGMENTS)),
        (Table::Outputs, batch.outputs),
        (Table::Arrivals, ARRIVALS),
    ];
    let tables = tables.map(|(table, len)| (BufferId::Table(table), storage_bytes(u64::from(len) * 4)));
    let slots = recording.arena.slot_len.iter().enumerate();
    let slots = slots.map(|(slot, len)| (BufferId::Slot(slot), storage_bytes(len * 4)));
    let params = (BufferId::Params, params_distance(limits) * recording.dispatches.len() as u64);
    tables.into_iter().chain(slots).chain([params]).collect()
}

/// Bytes of a storage buffer that holds that many: kernels load 16 at a time.
pub(crate) fn storage_bytes(bytes: u64) -> u64 {
    bytes.next_multiple_of(16).max(16)
}

/// Bytes from one uniform block to the next.
pub(crate) fn params_distance(limits: &Limits) -> u64 {
    PARAMS.next_multiple_of(u64::from(limits.uniform_alignment))
}
