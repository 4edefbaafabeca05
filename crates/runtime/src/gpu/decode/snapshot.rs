//! Copies of states on the device, to go back to.

use crate::gpu::GpuExecutor;
use std::collections::HashMap;
use wgoose_graph::State;

/// Room for the states of some sequences.
pub(in crate::gpu) struct Snapshot {
    tensors: HashMap<State, wgpu::Buffer>,
    sequences: usize,
}

impl Snapshot {
    /// Room for that many sequences.
    pub(in crate::gpu) fn new(executor: &GpuExecutor, sequences: usize) -> Self {
        let shape = executor.shared.model.shape();
        let room = |state: State| {
            executor.shared.device.storage("snapshot", sequences as u64 * executor.states.place(state).slot_bytes)
        };
        Snapshot { tensors: State::all(shape).map(|state| (state, room(state))).collect(), sequences }
    }

    /// Whether it has room for that many sequences.
    pub(in crate::gpu) fn holds(&self, sequences: usize) -> bool {
        sequences <= self.sequences
    }

    /// Appends copying the states of these slots.
    pub(in crate::gpu) fn save(&self, executor: &GpuExecutor, slots: &[usize], encoder: &mut wgpu::CommandEncoder) {
        self.each(executor, slots, |state, at, copy, place, bytes| {
            encoder.copy_buffer_to_buffer(state, at, copy, place, bytes);
        });
    }

    /// Appends putting them back.
    pub(in crate::gpu) fn restore(&self, executor: &GpuExecutor, slots: &[usize], encoder: &mut wgpu::CommandEncoder) {
        self.each(executor, slots, |state, at, copy, place, bytes| {
            encoder.copy_buffer_to_buffer(copy, place, state, at, bytes);
        });
    }

    /// One copy for each tensor and run of adjacent slots: a device takes some microseconds for a copy, however small,
    /// and a batch has thousands of states.
    fn each(
        &self,
        executor: &GpuExecutor,
        slots: &[usize],
        mut copy: impl FnMut(&wgpu::Buffer, u64, &wgpu::Buffer, u64, u64),
    ) {
        let mut slots = slots.to_vec();
        slots.sort_unstable();
        for state in State::all(executor.shared.model.shape()) {
            let place = executor.states.place(state);
            let mut done = 0;
            for run in slots.chunk_by(|slot, next| slot + 1 == *next) {
                let bytes = run.len() as u64 * place.slot_bytes;
                copy(place.buffer, place.at(run[0]), &self.tensors[&state], done, bytes);
                done += bytes;
            }
        }
    }

    /// Bytes it holds on the device.
    pub(in crate::gpu) fn bytes(&self) -> u64 {
        self.tensors.values().map(wgpu::Buffer::size).sum()
    }
}
