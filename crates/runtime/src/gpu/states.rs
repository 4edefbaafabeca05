//! The recurrent states of all sequences on the device: few buffers, so that one kernel can bind those of many layers.

use super::{GpuExecutor, decode, lock};
use crate::{Device, RuntimeError};
use std::collections::HashMap;
use wgoose_graph::{ModelShape, State};
use wgoose_kernels::Limits;

/// Where one tensor of the state lies, for all slots.
#[derive(Clone)]
pub(super) struct StatePlace {
    pub(super) buffer: wgpu::Buffer,
    /// First byte.
    pub(super) offset: u64,
    /// Bytes of all slots.
    pub(super) bytes: u64,
}

/// Every tensor of the state.
pub(super) struct States {
    places: HashMap<State, StatePlace>,
    bytes: u64,
}

impl States {
    /// Room for that many slots.
    ///
    /// # Errors
    /// A tensor of all slots is larger than the largest binding.
    pub(super) fn new(device: &Device, shape: &ModelShape, slots: usize) -> Result<Self, RuntimeError> {
        let limit = device.limits().storage_binding;
        let mut states = States { places: HashMap::new(), bytes: 0 };
        for (bytes, tensors) in packed(device.limits(), shape, slots) {
            if bytes > limit {
                return Err(RuntimeError::ValueTooLarge { what: "the state of all sequences", need: bytes, limit });
            }
            let buffer = device.storage("state", bytes);
            states.bytes += buffer.size();
            for (state, offset, bytes) in tensors {
                states.places.insert(state, StatePlace { buffer: buffer.clone(), offset, bytes });
            }
        }
        Ok(states)
    }

    /// Whether that many slots can be bound.
    pub(super) fn fit(device: &Device, shape: &ModelShape, slots: usize) -> bool {
        packed(device.limits(), shape, slots).iter().all(|(bytes, _)| *bytes <= device.limits().storage_binding)
    }

    /// Bytes that that many slots take.
    pub(super) fn predict(device: &Device, shape: &ModelShape, slots: usize) -> u64 {
        packed(device.limits(), shape, slots).iter().map(|(bytes, _)| bytes.next_multiple_of(16)).sum()
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
        let bytes = tensor.len(self.model.shape()) as u64 * 4;
        let place = self.states.place(tensor);
        let raw = self.device.read(&place.buffer, place.offset + slot as u64 * bytes, bytes)?;
        Ok(bytemuck::pod_collect_to_vec(&raw))
    }

    /// See [`crate::Executor::grow`].
    pub(super) fn add_slots(&mut self, slots: usize) -> Result<usize, RuntimeError> {
        let model = *self.model.shape();
        let has_budget = lock(&self.weights).capacity().is_some();
        if slots <= self.slots || has_budget || !States::fit(&self.device, &model, slots + 1) {
            return Ok(self.slots);
        }
        let states = States::new(&self.device, &model, slots + 1)?;
        self.device.check("allocating states")?;
        let mut encoder = self.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for state in State::all(&model) {
            let (old, new) = (self.states.place(state), states.place(state));
            let bytes = (self.slots * state.len(&model)) as u64 * 4;
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
type Packed = (u64, Vec<(State, u64, u64)>);

/// Buffers as large as can be bound, but for a tensor that alone is larger.
fn packed(limits: &Limits, shape: &ModelShape, slots: usize) -> Vec<Packed> {
    let limit = limits.storage_binding.min(limits.buffer);
    let mut buffers: Vec<Packed> = Vec::new();
    for state in State::all(shape) {
        let bytes = slots as u64 * state.len(shape) as u64 * 4;
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
