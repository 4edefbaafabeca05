//! The recurrent states of all sequences on the device.

use super::{GpuExecutor, decode};
use crate::schedule::{StateLayout, StateTensor};
use crate::{Device, RuntimeError, packed};
use std::borrow::Cow;
use std::ops::Deref;
use wgoose_graph::{ModelShape, State};
use wgoose_kernels::StateFormat;

/// One tensor of the state on the device.
pub(super) struct StatePlace<'a> {
    pub(super) buffer: &'a wgpu::Buffer,
    tensor: &'a StateTensor,
}

impl Deref for StatePlace<'_> {
    type Target = StateTensor;

    fn deref(&self) -> &StateTensor {
        self.tensor
    }
}

impl StatePlace<'_> {
    /// Values as they are stored.
    pub(super) fn encode<'v>(&self, values: &'v [f32]) -> Cow<'v, [u8]> {
        packed::pack_state(values, self.format)
    }

    /// The values of what is stored.
    pub(super) fn decode(&self, bytes: &[u8]) -> Vec<f32> {
        packed::unpack_state(bytes, self.format)
    }
}

/// Every tensor of the state.
pub(super) struct States {
    pub(super) layout: StateLayout,
    /// Those of [`StateLayout::buffers`].
    pub(super) buffers: Vec<wgpu::Buffer>,
    /// Sequences that can have a state.
    pub(super) slots: usize,
    /// Whether there is one more slot, for sequences that have ended while steps were in flight.
    pub(super) has_spare: bool,
}

impl States {
    /// Room for that many sequences, and for a spare one where that can be bound.
    ///
    /// # Errors
    /// A tensor of all slots is larger than the largest binding.
    pub(super) fn new(
        device: &Device,
        shape: &ModelShape,
        wkv: StateFormat,
        slots: usize,
    ) -> Result<Self, RuntimeError> {
        let layout = |slots| StateLayout::new(shape, wkv, slots, device.limits());
        let has_spare = layout(slots + 1).fits(device.limits());
        let layout = layout(slots + usize::from(has_spare));
        let limit = device.limits().storage_binding;
        if let Some(need) = layout.buffers.iter().copied().find(|bytes| *bytes > limit) {
            return Err(RuntimeError::ValueTooLarge { what: "the state of all sequences", need, limit });
        }
        let buffers = layout.buffers.iter().map(|bytes| device.storage("state", *bytes)).collect();
        Ok(States { layout, buffers, slots, has_spare })
    }

    /// Where a tensor lies.
    pub(super) fn place(&self, state: State) -> StatePlace<'_> {
        let tensor = self.layout.tensor(state);
        StatePlace { buffer: &self.buffers[tensor.buffer], tensor }
    }
}

impl GpuExecutor {
    /// See [`crate::Executor::state_tensor`].
    pub(crate) fn read_state(&self, slot: usize, tensor: State) -> Result<Vec<f32>, RuntimeError> {
        let place = self.states.place(tensor);
        let raw = self.shared.device.read(place.buffer, place.at(slot), place.slot_bytes, "reading a state back")?;
        Ok(place.decode(&raw))
    }

    /// See [`crate::Executor::grow`].
    pub(super) fn add_slots(&mut self, slots: usize) -> Result<usize, RuntimeError> {
        let has_budget = self.shared.weights.lock().capacity().is_some();
        let (shape, limits) = (self.shared.model.shape(), self.shared.device.limits());
        let fits = StateLayout::new(shape, self.planner.plan.state, slots + 1, limits).fits(limits);
        if slots <= self.states.slots || has_budget || !fits {
            return Ok(self.states.slots);
        }
        let states = States::new(&self.shared.device, shape, self.planner.plan.state, slots)?;
        self.shared.device.check("allocating states")?;
        let mut encoder = self.shared.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for state in State::all(self.shared.model.shape()) {
            let (old, new) = (self.states.place(state), states.place(state));
            let bytes = self.states.slots as u64 * old.slot_bytes;
            encoder.copy_buffer_to_buffer(old.buffer, old.offset, new.buffer, new.offset, bytes);
        }
        self.shared.device.queue.submit([encoder.finish()]);
        // What is bound to the old buffers, or counts on the old spare slot, goes with them.
        self.forget_steps();
        self.kept = decode::Kept::default();
        self.states = states;
        self.shared.device.check("growing states")?;
        Ok(slots)
    }
}
