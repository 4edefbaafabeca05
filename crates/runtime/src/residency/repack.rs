//! Repacking: the device interleaves blocks that arrive as in the file, or lays them out K-major, chunk by chunk.

use super::RowShard;
use super::upload::Part;
use crate::pipelines::{Pipeline, Pipelines};
use crate::{Device, RuntimeError};
use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU64;
use wgoose_graph::Format;
use wgoose_kernels::repack::{self, Chunk};
use wgoose_kernels::{Binding, Catalogue, Kernel, PlanError, dispatch_size};
use wgpu::util::DeviceExt;

/// The kernel that makes matrices of one format, compiled.
pub(crate) struct RepackKernel {
    kernel: Kernel,
    pipeline: Pipeline,
}

impl RepackKernel {
    /// Compiles the kernel for a format that no file holds.
    ///
    /// # Errors
    /// Nothing is repacked to that format, or the kernel does not compile.
    pub(crate) fn new(
        device: &Device,
        pipelines: &mut Pipelines,
        catalogue: &Catalogue,
        to: Format,
    ) -> Result<Self, RuntimeError> {
        let failed = |e| PlanError::of_kernel(&format!("repacking to {to}"), e);
        let kernel = repack::kernel(to, device.limits(), catalogue).map_err(failed)?;
        pipelines.compile(&[&kernel])?;
        match pipelines.get(&kernel.hash).cloned() {
            Some(pipeline) => Ok(RepackKernel { kernel, pipeline }),
            // It was compiled just now.
            None => unreachable!("{} is not compiled", kernel.label),
        }
    }

    /// Encodes the repacking of a chunk, from the beginning of `raw` on, into a matrix.
    ///
    /// # Errors
    /// The chunk is too large for one dispatch.
    pub(crate) fn encode(
        &self,
        device: &Device,
        raw: &wgpu::Buffer,
        chunk: Chunk,
        matrix: &wgpu::BindingResource<'_>,
        encoder: &mut wgpu::CommandEncoder,
    ) -> Result<(), RuntimeError> {
        let workgroups = chunk.workgroups();
        let too_large = || RuntimeError::DispatchTooLarge { kernel: self.kernel.label.clone(), workgroups };
        let [x, y, z] = dispatch_size(workgroups, device.limits()).ok_or_else(too_large)?;
        let params = device.device.create_buffer_init(&wgpu::util::BufferInitDescriptor {
            label: Some("params"),
            contents: bytemuck::cast_slice(&chunk.params()),
            usage: wgpu::BufferUsages::UNIFORM,
        });
        let bound = |name: &str| match name {
            "params" => params.as_entire_binding(),
            "raw" => raw.as_entire_binding(),
            _ => matrix.clone(),
        };
        let bindings = &self.kernel.facts.bindings;
        let entry = |b: &Binding| wgpu::BindGroupEntry { binding: b.number, resource: bound(&b.name) };
        let entries: Vec<wgpu::BindGroupEntry<'_>> = bindings.iter().map(entry).collect();
        let layout = &self.pipeline.layout;
        let descriptor = wgpu::BindGroupDescriptor { label: None, layout, entries: &entries };
        let group = device.device.create_bind_group(&descriptor);
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&self.pipeline.pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(x, y, z);
        Ok(())
    }
}

/// The kernels that an upload needs.
pub(crate) struct Repacker<'a> {
    device: &'a Device,
    kernels: HashMap<Format, RepackKernel>,
    /// Where a chunk is until it is repacked.
    scratch: Option<wgpu::Buffer>,
}

impl<'a> Repacker<'a> {
    /// Compiles what these shards need; chunks have at most `largest` bytes.
    ///
    /// # Errors
    /// A kernel is refused or does not compile, or the device has no memory left.
    pub(crate) fn new(
        device: &'a Device,
        pipelines: &mut Pipelines,
        catalogue: &Catalogue,
        shards: impl Iterator<Item = RowShard>,
        largest: usize,
    ) -> Result<Self, RuntimeError> {
        let formats: BTreeSet<Format> = shards.map(|w| w.format).filter(|f| f.is_repacked()).collect();
        let mut kernels = HashMap::new();
        for format in formats {
            kernels.insert(format, RepackKernel::new(device, pipelines, catalogue, format)?);
        }
        let scratch = (!kernels.is_empty()).then(|| device.storage("repack", largest as u64));
        device.check("allocating staging memory")?;
        Ok(Repacker { device, kernels, scratch })
    }

    /// Encodes the way of a part from a staging buffer to its shard, which begins at byte `offset` of `to`.
    ///
    /// # Errors
    /// The part is too large for one dispatch.
    pub(crate) fn encode(
        &self,
        part: &Part,
        from: &wgpu::Buffer,
        to: &wgpu::Buffer,
        offset: u64,
        encoder: &mut wgpu::CommandEncoder,
    ) -> Result<(), RuntimeError> {
        let bytes = part.len.next_multiple_of(4) as u64;
        let (Some(kernel), Some(scratch)) = (self.kernels.get(&part.shard.format), &self.scratch) else {
            encoder.copy_buffer_to_buffer(from, part.at as u64, to, offset + part.to, bytes);
            return Ok(());
        };
        encoder.copy_buffer_to_buffer(from, part.at as u64, scratch, 0, bytes);
        let size = NonZeroU64::new(part.shard.bytes);
        let matrix = wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer: to, offset, size });
        let RowShard { format, rows, cols, .. } = part.shard;
        let first = part.to / part.shard.quantum() as u64;
        let chunk = Chunk { to: format, bytes: part.len as u32, first: first as u32, cols, rows };
        kernel.encode(self.device, scratch, chunk, &matrix, encoder)
    }
}
