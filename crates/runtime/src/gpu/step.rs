//! A step: a pass of one shape with everything bound, ready to be encoded over and over.

use super::GpuExecutor;
use super::planner::one_group;
use crate::pipelines::{Pipeline, Pipelines};
use crate::residency::{Group, RowShard, Weights};
use crate::schedule::{BufferId, BufferRange, Memory, Operand, PARAMS, Recording, params_distance};
use crate::{Device, RuntimeError};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use wgoose_graph::BatchShape;
use wgoose_kernels::persistent::OFFSET_TABLE_BYTES;

/// A pass of one shape.
pub(super) struct Step {
    pub(super) recording: Recording,
    /// Where everything lies that it binds.
    pub(super) memory: Memory,
    /// The buffers of its own: uniform blocks, offset tables, cells, and what takes the place of activations.
    own: BTreeMap<BufferId, wgpu::Buffer>,
    pub(super) groups: Vec<Group>,
    /// For each group, its dispatches once they are bound.
    pub(super) bound: Vec<Option<Vec<BoundDispatch>>>,
    /// Whether nothing is left to be uploaded, compiled or bound.
    pub(super) ready: bool,
    /// Which opening of a step was its last.
    pub(super) opened: u64,
}

/// One dispatch with everything it needs.
#[derive(Clone)]
pub(super) struct BoundDispatch {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    grid: [u32; 3],
}

impl Step {
    /// A step for a recording; its weights have their places, nothing is bound yet.
    ///
    /// # Errors
    /// The streamed weights of a dispatch exceed the ring.
    pub(super) fn new(executor: &GpuExecutor, batch: &BatchShape, recording: Recording) -> Result<Self, RuntimeError> {
        let (states, layout) = (&executor.states.layout, &mut executor.shared.weights.lock().layout);
        let (groups, memory) = executor.planner.lay_out(batch, &recording, states, layout)?;
        Ok(Step::with(executor, recording, memory, groups))
    }

    /// The same pass with its layers fused: its dispatches are one group, whose weights are all there.
    pub(super) fn fused(&self, executor: &GpuExecutor, batch: &BatchShape, recording: Recording) -> Self {
        let groups = vec![one_group(&self.groups, &recording)];
        let (states, layout) = (&executor.states.layout, &executor.shared.weights.lock().layout);
        let memory = executor.planner.memory(batch, &recording, &groups, states, layout);
        Step::with(executor, recording, memory, groups)
    }

    fn with(executor: &GpuExecutor, recording: Recording, memory: Memory, groups: Vec<Group>) -> Self {
        let device = &executor.shared.device;
        let distance = params_distance(device.limits()) as usize;
        let mut blocks = vec![0u8; recording.dispatches.len() * distance];
        for (block, dispatch) in blocks.chunks_exact_mut(distance).zip(&recording.dispatches) {
            block[..PARAMS as usize].copy_from_slice(bytemuck::bytes_of(&dispatch.params));
        }
        let mut own = BTreeMap::from([(BufferId::Params, uniform(device, "params", &blocks))]);
        for (number, offsets) in recording.offsets.iter().enumerate() {
            let mut table = vec![0u8; OFFSET_TABLE_BYTES];
            let offsets: &[u8] = bytemuck::cast_slice(offsets);
            table[..offsets.len()].copy_from_slice(offsets);
            own.insert(BufferId::Offsets(number), uniform(device, "offset table", &table));
        }
        // New buffers are clear. Cells that a step which timed out has left are never looked at again: its kernels go with them.
        for (number, bytes) in recording.cells.iter().enumerate() {
            let cells = BufferId::Cells(number);
            own.insert(cells, device.storage(&cells.to_string(), *bytes));
        }
        let bound = groups.iter().map(|_| None).collect();
        Step { recording, memory, own, groups, bound, ready: false, opened: 0 }
    }

    /// The same step, opened after that many others.
    pub(super) fn opened_at(self, opened: u64) -> Self {
        Step { opened, ..self }
    }

    /// Bytes it holds on the device, but for what it shares.
    pub(super) fn bytes(&self) -> u64 {
        self.own.values().map(wgpu::Buffer::size).sum()
    }

    /// Binds a group whose pipelines are compiled and whose weights have their buffers.
    ///
    /// # Errors
    /// The device has no memory left.
    pub(super) fn bind(
        &mut self,
        number: usize,
        executor: &GpuExecutor,
        weights: &mut Weights,
        pipelines: &Pipelines,
    ) -> Result<(), RuntimeError> {
        if self.bound[number].is_some() {
            return Ok(());
        }
        let mut bound = Vec::with_capacity(self.groups[number].dispatches.len());
        for i in self.groups[number].dispatches.clone() {
            let dispatch = &self.recording.dispatches[i];
            let Some(pipeline) = pipelines.get(&self.recording.kernels[dispatch.kernel].hash) else { continue };
            let buffers = &mut |range: &BufferRange| self.buffer(range.buffer, executor, weights);
            bound.push(BoundDispatch::new(
                &executor.shared.device,
                pipeline,
                &self.memory.operands[i],
                dispatch.grid,
                buffers,
            )?);
        }
        self.bound[number] = Some(bound);
        Ok(())
    }

    /// A buffer on the device.
    ///
    /// # Errors
    /// The device has no memory left.
    pub(super) fn buffer(
        &self,
        id: BufferId,
        executor: &GpuExecutor,
        weights: &mut Weights,
    ) -> Result<wgpu::Buffer, RuntimeError> {
        match id {
            BufferId::Params | BufferId::Offsets(_) | BufferId::Cells(_) | BufferId::Scratch(_) => {
                Ok(self.own[&id].clone())
            }
            BufferId::Slot(_) | BufferId::Table(_) | BufferId::GridBarrier => Ok(executor.buffers[id].clone()),
            BufferId::States(number) => Ok(executor.states.buffers[number].clone()),
            BufferId::Weights(_) | BufferId::Ring => weights.buffer(id),
        }
    }

    /// Encodes groups that are bound, as one compute pass.
    pub(super) fn encode(&self, groups: std::ops::Range<usize>, encoder: &mut wgpu::CommandEncoder) {
        self.dispatch(groups, &mut encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()));
    }

    /// Appends groups that are bound to a compute pass.
    pub(super) fn dispatch(&self, groups: std::ops::Range<usize>, pass: &mut wgpu::ComputePass<'_>) {
        for dispatch in self.bound[groups].iter().flatten().flatten() {
            dispatch.encode(pass);
        }
    }
}

impl BoundDispatch {
    /// Binds everything.
    ///
    /// # Errors
    /// A buffer is not there: the device has no memory left.
    pub(super) fn new(
        device: &Device,
        pipeline: &Pipeline,
        operands: &[Operand],
        grid: [u32; 3],
        buffer: &mut dyn FnMut(&BufferRange) -> Result<wgpu::Buffer, RuntimeError>,
    ) -> Result<Self, RuntimeError> {
        let buffers: Vec<wgpu::Buffer> =
            operands.iter().map(|operand| buffer(&operand.range)).collect::<Result<_, _>>()?;
        let entries: Vec<wgpu::BindGroupEntry<'_>> = operands
            .iter()
            .zip(&buffers)
            .map(|(Operand { binding, range }, buffer)| wgpu::BindGroupEntry {
                binding: *binding,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer,
                    offset: range.offset,
                    size: NonZeroU64::new(range.bytes),
                }),
            })
            .collect();
        let layout = &pipeline.layout;
        let descriptor = wgpu::BindGroupDescriptor { label: None, layout, entries: &entries };
        let group = device.device.create_bind_group(&descriptor);
        Ok(BoundDispatch { pipeline: pipeline.pipeline.clone(), group, grid })
    }

    /// Encodes it into a pass.
    pub(super) fn encode(&self, pass: &mut wgpu::ComputePass<'_>) {
        let [x, y, z] = self.grid;
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.group, &[]);
        pass.dispatch_workgroups(x, y, z);
    }
}

/// A uniform buffer with these bytes.
fn uniform(device: &Device, label: &str, bytes: &[u8]) -> wgpu::Buffer {
    let buffer = device.device.create_buffer(&wgpu::BufferDescriptor {
        label: Some(label),
        size: bytes.len() as u64,
        usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    device.queue.write_buffer(&buffer, 0, bytes);
    buffer
}

/// The shards that groups need and that are not there, each with the first group that needs it. Streamed shards are
/// never there.
pub(super) fn missing(groups: &[Group], weights: &Weights, streamed: bool) -> Vec<(RowShard, usize)> {
    let mut found: Vec<(RowShard, usize)> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (number, group) in groups.iter().enumerate() {
        for placed in &group.weights {
            let wanted = match placed.ring {
                Some(_) => streamed,
                None => !weights.is_filled(&placed.shard) && seen.insert(placed.shard),
            };
            if wanted {
                found.push((placed.shard, number));
            }
        }
    }
    found
}
