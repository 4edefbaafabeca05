//! Repacking: blocks that arrive as they lie in the file are brought into tiles by the device, piece by piece.

use crate::pipelines::{Pipeline, Pipelines};
use crate::upload::Part;
use crate::weights::Window;
use crate::{Device, RuntimeError};
use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU64;
use wgoose_graph::Format;
use wgoose_kernels::{Binding, Kernel, PlanError, Sources, dispatch_size, repack};
use wgpu::util::DeviceExt;

/// The kernel that brings the blocks of one format in tiles, compiled.
pub(crate) struct RepackKernel {
    from: Format,
    kernel: Kernel,
    pipeline: Pipeline,
}

impl RepackKernel {
    /// Compiles the kernel for a format of files.
    ///
    /// # Errors
    /// The format has no tiles, or the kernel does not compile.
    pub(crate) fn new(
        device: &Device,
        pipelines: &mut Pipelines,
        sources: &Sources,
        from: Format,
    ) -> Result<Self, RuntimeError> {
        let refused = |refusal| PlanError::Refused { kernel: format!("repacking of {from}"), refusal };
        let kernel = repack::kernel(from, device.limits(), sources).map_err(refused)?;
        pipelines.compile(&[&kernel])?;
        match pipelines.get(&kernel.hash).cloned() {
            Some(pipeline) => Ok(RepackKernel { from, kernel, pipeline }),
            // It was compiled just now.
            None => unreachable!("{} is not compiled", kernel.label),
        }
    }

    /// Encodes the repacking of the first `bytes` bytes of `raw` into `tiles`, from tile `first` on.
    ///
    /// # Errors
    /// The piece is too large for one dispatch.
    pub(crate) fn encode(
        &self,
        device: &Device,
        raw: &wgpu::Buffer,
        bytes: u32,
        tiles: &wgpu::BindingResource<'_>,
        first: u32,
        encoder: &mut wgpu::CommandEncoder,
    ) -> Result<(), RuntimeError> {
        let units = repack::units(self.from, bytes);
        let too_large = || RuntimeError::DispatchTooLarge { kernel: self.kernel.label.clone(), units };
        let [x, y, z] = dispatch_size(units, device.limits()).ok_or_else(too_large)?;
        let params = device.device.create_buffer_init(&wgpu::util::BufferInitDescriptor {
            label: Some("params"),
            contents: bytemuck::cast_slice(&repack::params(self.from, bytes, first)),
            usage: wgpu::BufferUsages::UNIFORM,
        });
        let bound = |name: &str| match name {
            "params" => params.as_entire_binding(),
            "raw" => raw.as_entire_binding(),
            _ => tiles.clone(),
        };
        let bindings = &self.kernel.reflection.bindings;
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
    /// Where a piece lies until it is repacked.
    scratch: Option<wgpu::Buffer>,
}

impl<'a> Repacker<'a> {
    /// Compiles what these windows need; pieces have at most `largest` bytes.
    ///
    /// # Errors
    /// A kernel is refused or does not compile, or the device has no memory left.
    pub(crate) fn new(
        device: &'a Device,
        pipelines: &mut Pipelines,
        sources: &Sources,
        windows: impl Iterator<Item = Window>,
        largest: usize,
    ) -> Result<Self, RuntimeError> {
        let formats: BTreeSet<Format> = windows.map(|w| w.format).filter(|f| f.is_tiled()).collect();
        let mut kernels = HashMap::new();
        for format in formats {
            kernels.insert(format, RepackKernel::new(device, pipelines, sources, format.as_in_file())?);
        }
        let scratch = (!kernels.is_empty()).then(|| device.storage("repack", largest as u64));
        device.check("allocating staging memory")?;
        Ok(Repacker { device, kernels, scratch })
    }

    /// Encodes the way of a part from a staging buffer to its window, which begins at byte `offset` of `to`.
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
        let (Some(kernel), Some(scratch)) = (self.kernels.get(&part.window.format), &self.scratch) else {
            encoder.copy_buffer_to_buffer(from, part.at as u64, to, offset + part.to, bytes);
            return Ok(());
        };
        encoder.copy_buffer_to_buffer(from, part.at as u64, scratch, 0, bytes);
        let size = NonZeroU64::new(part.window.bytes);
        let tiles = wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer: to, offset, size });
        let first = part.to / part.window.unit() as u64;
        kernel.encode(self.device, scratch, part.len as u32, &tiles, first as u32, encoder)
    }
}
