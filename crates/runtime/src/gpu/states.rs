//! The recurrent states of all sequences on the device: few buffers, so that one kernel can bind those of many layers.

use super::{GpuExecutor, decode, lock};
use crate::{Device, RuntimeError, packed};
use std::borrow::Cow;
use std::collections::HashMap;
use wgoose_graph::{ModelShape, State};
use wgoose_kernels::{Limits, StateFormat};

/// Where one tensor of the state lies, for all slots.
#[derive(Clone)]
pub(super) struct StatePlace {
    pub(super) buffer: wgpu::Buffer,
    /// First byte.
    pub(super) offset: u64,
    /// Bytes of all slots.
    pub(super) bytes: u64,
    /// Bytes of one.
    pub(super) slot_bytes: u64,
    /// How its values are stored.
    format: StateFormat,
}

impl StatePlace {
    /// First byte of a slot.
    pub(super) fn at(&self, slot: usize) -> u64 {
        self.offset + slot as u64 * self.slot_bytes
    }

    /// Values as they are stored.
    pub(super) fn encode<'a>(&self, values: &'a [f32]) -> Cow<'a, [u8]> {
        packed::pack_state(values, self.format)
    }

    /// The values of what is stored.
    pub(super) fn decode(&self, bytes: &[u8]) -> Vec<f32> {
        packed::unpack_state(bytes, self.format)
    }
}

/// The sizes of the states of all sequences.
#[derive(Clone, Copy)]
pub(super) struct StateSize<'a> {
    pub(super) shape: &'a ModelShape,
    /// How the WKV matrices are stored.
    pub(super) wkv: StateFormat,
    pub(super) slots: usize,
}

impl StateSize<'_> {
    fn format(&self, state: State) -> StateFormat {
        match state {
            State::Wkv(_) => self.wkv,
            State::AttShift(_) | State::FfnShift(_) => StateFormat::F32,
        }
    }

    /// Bytes of a tensor of one slot.
    fn slot_bytes(&self, state: State) -> u64 {
        state.len(self.shape) as u64 * self.format(state).value_bytes()
    }
}

/// Every tensor of the state.
pub(super) struct States {
    places: HashMap<State, StatePlace>,
    bytes: u64,
}

impl States {
    /// Room for all slots.
    ///
    /// # Errors
    /// A tensor of all slots is larger than the largest binding.
    pub(super) fn new(device: &Device, size: StateSize<'_>) -> Result<Self, RuntimeError> {
        let limit = device.limits().storage_binding;
        let mut states = States { places: HashMap::new(), bytes: 0 };
        for (bytes, tensors) in buffers(device.limits(), size) {
            if bytes > limit {
                return Err(RuntimeError::ValueTooLarge { what: "the state of all sequences", need: bytes, limit });
            }
            let buffer = device.storage("state", bytes);
            states.bytes += buffer.size();
            for (state, offset, bytes) in tensors {
                let (buffer, slot_bytes, format) = (buffer.clone(), size.slot_bytes(state), size.format(state));
                states.places.insert(state, StatePlace { buffer, offset, bytes, slot_bytes, format });
            }
        }
        Ok(states)
    }

    /// Whether all slots can be bound.
    pub(super) fn fit(device: &Device, size: StateSize<'_>) -> bool {
        buffers(device.limits(), size).iter().all(|(bytes, _)| *bytes <= device.limits().storage_binding)
    }

    /// Bytes that all slots take.
    pub(super) fn predict(device: &Device, size: StateSize<'_>) -> u64 {
        buffers(device.limits(), size).iter().map(|(bytes, _)| bytes.next_multiple_of(16)).sum()
    }

    /// Where a tensor lies.
    pub(super) fn place(&self, state: State) -> &StatePlace {
        &self.places[&state]
    }

    /// Bytes on the device.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl GpuExecutor {
    /// See [`crate::Executor::state_tensor`].
    pub(crate) fn read_state(&self, slot: usize, tensor: State) -> Result<Vec<f32>, RuntimeError> {
        let place = self.states.place(tensor);
        let raw = self.device.read(&place.buffer, place.at(slot), place.slot_bytes)?;
        Ok(place.decode(&raw))
    }

    /// The sizes of the states with that many slots.
    pub(super) fn state_size(&self, slots: usize) -> StateSize<'_> {
        StateSize { shape: self.model.shape(), wkv: self.plan.state, slots }
    }

    /// See [`crate::Executor::grow`].
    pub(super) fn add_slots(&mut self, slots: usize) -> Result<usize, RuntimeError> {
        let has_budget = lock(&self.weights).capacity().is_some();
        let size = self.state_size(slots + 1);
        if slots <= self.slots || has_budget || !States::fit(&self.device, size) {
            return Ok(self.slots);
        }
        let states = States::new(&self.device, size)?;
        self.device.check("allocating states")?;
        let mut encoder = self.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for state in State::all(self.model.shape()) {
            let (old, new) = (self.states.place(state), states.place(state));
            let bytes = self.slots as u64 * old.slot_bytes;
            encoder.copy_buffer_to_buffer(&old.buffer, old.offset, &new.buffer, new.offset, bytes);
        }
        self.device.queue.submit([encoder.finish()]);
        // What is bound to the old buffers, or counts on the old spare slot, goes with them.
        self.forget_steps();
        self.decoder = decode::Decoder::default();
        (self.states, self.has_spare, self.slots) = (states, true, slots);
        self.device.check("growing states")?;
        Ok(slots)
    }
}

/// Bytes of a buffer, and its tensors with offset and bytes.
type Filled = (u64, Vec<(State, u64, u64)>);

/// Buffers as large as can be bound, but for a tensor that alone is larger.
fn buffers(limits: &Limits, size: StateSize<'_>) -> Vec<Filled> {
    let limit = limits.storage_binding.min(limits.buffer);
    let mut buffers: Vec<Filled> = Vec::new();
    for state in State::all(size.shape) {
        let bytes = size.slots as u64 * size.slot_bytes(state);
        let offset = |used: u64| used.next_multiple_of(u64::from(limits.storage_alignment));
        match buffers.last_mut().filter(|(used, _)| offset(*used) + bytes <= limit) {
            Some((used, tensors)) => {
                tensors.push((state, offset(*used), bytes));
                *used = offset(*used) + bytes;
            }
            None => buffers.push((bytes, vec![(state, 0, bytes)])),
        }
    }
    buffers
}
