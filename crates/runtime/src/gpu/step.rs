//! A step: a pass of one shape with everything bound, ready to be encoded over and over.

use super::{GpuExecutor, lock};
use crate::pipelines::{Pipeline, Pipelines};
use crate::schedule::{Bound, Dispatch, Recording};
use crate::weights::{Group, Need, Placed, RowShard, Weights, route};
use crate::{Device, RuntimeError};
use std::num::NonZeroU64;
use wgoose_graph::Weight;

/// Bytes of a dispatch's uniform block.
const PARAMS: u64 = 48;

/// A pass of one shape.
pub(super) struct Step {
    pub(super) recording: Recording,
    /// The uniform blocks, one after another, and the distance between two.
    params: (wgpu::Buffer, u64),
    pub(super) groups: Vec<Group>,
    /// For each group, its dispatches once they are bound.
    pub(super) bound: Vec<Option<Vec<BoundDispatch>>>,
    /// Whether nothing is left to be uploaded, compiled or bound.
    pub(super) ready: bool,
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
    pub(super) fn new(executor: &GpuExecutor, recording: Recording) -> Result<Self, RuntimeError> {
        let device = &executor.device;
        let align = param_distance(device);
        let mut blocks = vec![0u8; recording.dispatches.len() * align as usize];
        for (block, dispatch) in blocks.chunks_exact_mut(align as usize).zip(&recording.dispatches) {
            block[..PARAMS as usize].copy_from_slice(bytemuck::bytes_of(&dispatch.params));
        }
        let params = device.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("params"),
            size: blocks.len() as u64,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        device.queue.write_buffer(&params, 0, &blocks);

        let mut weights = lock(&executor.weights);
        let needs =
            recording.dispatches.iter().map(|d| executor.needs(&weights, d)).collect::<Result<Vec<Need>, _>>()?;
        weights.assign(needs.iter().flat_map(|n| &n.shards).copied());
        let groups = route(&needs, &|w| weights.is_streamed(w), weights.ring_bytes())?;
        let bound = groups.iter().map(|_| None).collect();
        Ok(Step { recording, params: (params, align), groups, bound, ready: false })
    }

    /// Bytes it holds on the device, but for what it shares.
    pub(super) fn bytes(&self) -> u64 {
        self.params.0.size()
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
            let slot = |_, slot: usize, offset| (executor.arena[slot].clone(), offset);
            bound.extend(self.bind_dispatch((number, i), executor, weights, pipelines, &slot)?);
        }
        self.bound[number] = Some(bound);
        Ok(())
    }

    /// Binds dispatch `i` of a group, if its pipeline is compiled. `slot` has the buffer, and where in it, of a range of an
    /// activation slot, given the binding's number, the slot and the offset.
    ///
    /// # Errors
    /// The device has no memory left.
    pub(super) fn bind_dispatch(
        &self,
        (number, i): (usize, usize),
        executor: &GpuExecutor,
        weights: &mut Weights,
        pipelines: &Pipelines,
        slot: &dyn Fn(u32, usize, u64) -> (wgpu::Buffer, u64),
    ) -> Result<Option<BoundDispatch>, RuntimeError> {
        let dispatch = &self.recording.dispatches[i];
        let Some(pipeline) = pipelines.get(&self.recording.kernels[dispatch.kernel].hash) else { return Ok(None) };
        let ranges = self.locate((number, i), executor, weights, slot)?;
        Ok(Some(BoundDispatch::new(&executor.device, pipeline, &ranges, dispatch.grid)))
    }

    /// Where everything lies that dispatch `i` of a group binds.
    ///
    /// # Errors
    /// The device has no memory left.
    pub(super) fn locate(
        &self,
        (number, i): (usize, usize),
        executor: &GpuExecutor,
        weights: &mut Weights,
        slot: &dyn Fn(u32, usize, u64) -> (wgpu::Buffer, u64),
    ) -> Result<Vec<BoundRange>, RuntimeError> {
        let (group, dispatch) = (&self.groups[number], &self.recording.dispatches[i]);
        let mut ranges = Vec::with_capacity(dispatch.bindings.len());
        for &(binding, what) in &dispatch.bindings {
            let (buffer, offset, size) = match what {
                Bound::Params => (self.params.0.clone(), i as u64 * self.params.1, PARAMS),
                Bound::Slot { slot: from, offset, size } => {
                    let (buffer, offset) = slot(binding, from, offset);
                    (buffer, offset, size)
                }
                Bound::Weight(weight, index) => {
                    let placed = placed(group, weight, index);
                    let (buffer, offset) = weights.buffer(&placed)?;
                    (buffer, offset, placed.shard.bytes)
                }
                Bound::State(state) => {
                    let place = executor.states.place(state).clone();
                    (place.buffer, place.offset, place.bytes)
                }
                Bound::Table(table) => {
                    let buffer = executor.tables[&table].clone();
                    let size = buffer.size();
                    (buffer, 0, size)
                }
            };
            ranges.push(BoundRange { binding, buffer, offset, size });
        }
        Ok(ranges)
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

/// A range of a buffer, in bytes, at a binding.
pub(super) struct BoundRange {
    pub(super) binding: u32,
    pub(super) buffer: wgpu::Buffer,
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl BoundDispatch {
    /// Binds everything.
    pub(super) fn new(device: &Device, pipeline: &Pipeline, ranges: &[BoundRange], grid: [u32; 3]) -> Self {
        let entries: Vec<wgpu::BindGroupEntry<'_>> = ranges
            .iter()
            .map(|range| wgpu::BindGroupEntry {
                binding: range.binding,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: &range.buffer,
                    offset: range.offset,
                    size: NonZeroU64::new(range.size),
                }),
            })
            .collect();
        let layout = &pipeline.layout;
        let descriptor = wgpu::BindGroupDescriptor { label: None, layout, entries: &entries };
        let group = device.device.create_bind_group(&descriptor);
        BoundDispatch { pipeline: pipeline.pipeline.clone(), group, grid }
    }

    /// Encodes it into a pass.
    pub(super) fn encode(&self, pass: &mut wgpu::ComputePass<'_>) {
        let [x, y, z] = self.grid;
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.group, &[]);
        pass.dispatch_workgroups(x, y, z);
    }
}

/// Bytes from one uniform block to the next.
fn param_distance(device: &Device) -> u64 {
    PARAMS.next_multiple_of(u64::from(device.limits().uniform_alignment))
}

/// Bytes of the uniform blocks of that many dispatches.
pub(super) fn param_bytes(device: &Device, dispatches: usize) -> u64 {
    param_distance(device) * dispatches as u64
}

impl GpuExecutor {
    /// The weights of a dispatch.
    pub(super) fn needs(&self, weights: &Weights, dispatch: &Dispatch) -> Result<Need, RuntimeError> {
        let mut need = Need::default();
        for (_, bound) in &dispatch.bindings {
            if let Bound::Weight(weight, index) = *bound {
                need.shards.push(weights.shards(weight, self.format(weight))?[index]);
            }
        }
        Ok(need)
    }
}

/// Where a group has a weight.
fn placed(group: &Group, weight: Weight, index: usize) -> Placed {
    let is = |p: &&Placed| p.shard.weight == weight && p.shard.index == index;
    match group.weights.iter().find(is) {
        Some(placed) => *placed,
        // Groups hold the shards of all their dispatches.
        None => unreachable!("{weight} is not among its group's weights"),
    }
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
