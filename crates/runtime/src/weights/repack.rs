//! Repacking: blocks that arrive as they lie in the file are brought into tiles by the device, piece by piece.

use crate::pipelines::{Pipeline, Pipelines};
use crate::upload::Part;
use crate::weights::Window;
use crate::{Device, RuntimeError};
use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU64;
use wgoose_graph::Format;
use wgoose_kernels::{Kernel, PlanError, Sources, dispatch_size, repack};
use wgpu::util::DeviceExt;

/// The kernels that an upload needs, compiled.
pub(crate) struct Repacker<'a> {
    device: &'a Device,
    kernels: HashMap<Format, (Kernel, Pipeline)>,
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
            let from = format.as_in_file();
            let refused = |refusal| PlanError::Refused { kernel: format!("repacking of {from}"), refusal };
            let kernel = repack::kernel(from, device.limits(), sources).map_err(refused)?;
            pipelines.compile(&[&kernel])?;
            if let Some(pipeline) = pipelines.get(&kernel.hash).cloned() {
                kernels.insert(format, (kernel, pipeline));
            }
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
        let format = part.window.format;
        let (Some((kernel, pipeline)), Some(scratch)) = (self.kernels.get(&format), &self.scratch) else {
            encoder.copy_buffer_to_buffer(from, part.at as u64, to, offset + part.to, bytes);
            return Ok(());
        };
        let in_file = format.as_in_file();
        let units = repack::units(in_file, part.len as u32);
        let too_large = || RuntimeError::DispatchTooLarge { kernel: kernel.label.clone(), units };
        let [x, y, z] = dispatch_size(units, self.device.limits()).ok_or_else(too_large)?;
        let first_tile = part.to / part.window.unit() as u64;
        let params = self.device.device.create_buffer_init(&wgpu::util::BufferInitDescriptor {
            label: Some("params"),
            contents: bytemuck::cast_slice(&repack::params(in_file, part.len as u32, first_tile as u32)),
            usage: wgpu::BufferUsages::UNIFORM,
        });
        let bound = |name: &str| match name {
            "params" => params.as_entire_binding(),
            "raw" => scratch.as_entire_binding(),
            _ => wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer: to,
                offset,
                size: NonZeroU64::new(part.window.bytes),
            }),
        };
        let entries: Vec<wgpu::BindGroupEntry<'_>> = kernel
            .reflection
            .bindings
            .iter()
            .map(|b| wgpu::BindGroupEntry { binding: b.number, resource: bound(&b.name) })
            .collect();
        let layout = &pipeline.layout;
        let descriptor = wgpu::BindGroupDescriptor { label: None, layout, entries: &entries };
        let group = self.device.device.create_bind_group(&descriptor);
        encoder.copy_buffer_to_buffer(from, part.at as u64, scratch, 0, bytes);
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline.pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(x, y, z);
        Ok(())
    }
}
