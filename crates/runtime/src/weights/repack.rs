//! Repacking: blocks that arrive as they lie in the file are brought into tiles or columns by the device, piece by piece.

use crate::pipelines::{Pipeline, Pipelines};
use crate::upload::Part;
use crate::weights::Window;
use crate::{Device, RuntimeError};
use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU64;
use wgoose_graph::Format;
use wgoose_kernels::repack::{self, Piece};
use wgoose_kernels::{Binding, Kernel, PlanError, Sources, dispatch_size};
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
        sources: &Sources,
        to: Format,
    ) -> Result<Self, RuntimeError> {
        let refused = |refusal| PlanError::Refused { kernel: format!("repacking to {to}"), refusal };
        let kernel = repack::kernel(to, device.limits(), sources).map_err(refused)?;
        pipelines.compile(&[&kernel])?;
        match pipelines.get(&kernel.hash).cloned() {
            Some(pipeline) => Ok(RepackKernel { kernel, pipeline }),
            // It was compiled just now.
            None => unreachable!("{} is not compiled", kernel.label),
        }
    }

    /// Encodes the repacking of a piece, from the beginning of `raw` on, into a matrix.
    ///
    /// # Errors
    /// The piece is too large for one dispatch.
    pub(crate) fn encode(
        &self,
        device: &Device,
        raw: &wgpu::Buffer,
        piece: Piece,
        matrix: &wgpu::BindingResource<'_>,
        encoder: &mut wgpu::CommandEncoder,
    ) -> Result<(), RuntimeError> {
        let units = piece.units();
        let too_large = || RuntimeError::DispatchTooLarge { kernel: self.kernel.label.clone(), units };
        let [x, y, z] = dispatch_size(units, device.limits()).ok_or_else(too_large)?;
        let params = device.device.create_buffer_init(&wgpu::util::BufferInitDescriptor {
            label: Some("params"),
            contents: bytemuck::cast_slice(&piece.params()),
            usage: wgpu::BufferUsages::UNIFORM,
        });
        let bound = |name: &str| match name {
            "params" => params.as_entire_binding(),
            "raw" => raw.as_entire_binding(),
            _ => matrix.clone(),
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
        let formats: BTreeSet<Format> = windows.map(|w| w.format).filter(|f| f.is_repacked()).collect();
        let mut kernels = HashMap::new();
        for format in formats {
            kernels.insert(format, RepackKernel::new(device, pipelines, sources, format)?);
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
        let matrix = wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer: to, offset, size });
        let Window { format, rows, cols, .. } = part.window;
        let first = part.to / part.window.unit() as u64;
        let piece = Piece { to: format, bytes: part.len as u32, first: first as u32, cols, rows };
        kernel.encode(self.device, scratch, piece, &matrix, encoder)
    }
}
