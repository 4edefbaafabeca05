//! The recurrent states of all sequences as plain data: few buffers, so that one kernel can bind the states of many
//! layers.

use super::buffer::{BufferId, BufferRange};
use std::collections::HashMap;
use wgoose_graph::{ModelShape, State};
use wgoose_kernels::{Limits, StateFormat};

/// Where one tensor of the state lies, for all slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateTensor {
    /// Which of the buffers.
    pub(crate) buffer: usize,
    /// First byte there.
    pub(crate) offset: u64,
    /// Bytes of all slots.
    pub(crate) bytes: u64,
    /// Bytes of one.
    pub(crate) slot_bytes: u64,
    /// How its values are stored.
    pub(crate) format: StateFormat,
}

impl StateTensor {
    /// All slots.
    pub(crate) fn range(&self) -> BufferRange {
        BufferRange { buffer: BufferId::States(self.buffer), offset: self.offset, bytes: self.bytes }
    }

    /// First byte of a slot.
    pub(crate) fn at(&self, slot: usize) -> u64 {
        self.offset + slot as u64 * self.slot_bytes
    }
}

/// Where every tensor of the state lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateLayout {
    tensors: HashMap<State, StateTensor>,
    /// Bytes of each buffer.
    pub(crate) buffers: Vec<u64>,
}

impl StateLayout {
    /// Room for `slots` sequences, the WKV matrices stored in that format. Buffers are as large as can be bound, but for a tensor
    /// that alone is larger.
    pub(crate) fn new(shape: &ModelShape, wkv: StateFormat, slots: usize, limits: &Limits) -> Self {
        let most = limits.storage_binding.min(limits.buffer);
        let (mut tensors, mut buffers) = (HashMap::new(), Vec::<u64>::new());
        for state in State::all(shape) {
            let format = match state {
                State::Wkv(_) => wkv,
                State::AttShift(_) | State::FfnShift(_) => StateFormat::F32,
            };
            let slot_bytes = state.len(shape) as u64 * format.value_bytes();
            let bytes = slots as u64 * slot_bytes;
            let aligned = |used: u64| used.next_multiple_of(u64::from(limits.storage_alignment));
            let offset = match buffers.last_mut().filter(|used| aligned(**used) + bytes <= most) {
                Some(used) => {
                    let offset = aligned(*used);
                    *used = offset + bytes;
                    offset
                }
                None => {
                    buffers.push(bytes);
                    0
                }
            };
            tensors.insert(state, StateTensor { buffer: buffers.len() - 1, offset, bytes, slot_bytes, format });
        }
        StateLayout { tensors, buffers }
    }

    /// Where a tensor lies.
    pub(crate) fn tensor(&self, state: State) -> &StateTensor {
        &self.tensors[&state]
    }

    /// Whether a device can bind each buffer.
    pub(crate) fn fits(&self, limits: &Limits) -> bool {
        self.buffers.iter().all(|bytes| *bytes <= limits.storage_binding)
    }
}
