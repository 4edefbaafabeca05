//! Repacking on the device, a dispatch a piece, as the weights of a model are repacked.

use crate::pipelines::Pipelines;
use crate::{Device, RuntimeError};
use std::collections::BTreeMap;
use std::sync::Arc;
use wgoose_graph::Format;
use wgoose_kernels::{PlanError, Sources, dispatch_size, repack as kernels};

/// Blocks as they lie in a file, and the tile that the first of them begins.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Whole blocks. Only the last piece of a matrix ends within a tile.
    pub blocks: &'a [u8],
    /// The first tile written.
    pub first_tile: u32,
}

/// What becomes of `tiles`, whole tiles of a matrix, when pieces of format `from` are repacked into them.
///
/// # Errors
/// The format has no tiles, a piece is too large for one dispatch, or the device fails.
pub fn repack(device: &Arc<Device>, from: Format, tiles: &[u8], pieces: &[Piece<'_>]) -> Result<Vec<u8>, RuntimeError> {
    let refused = |refusal| PlanError::Refused { kernel: format!("repacking of {from}"), refusal };
    let kernel = kernels::kernel(from, device.limits(), &Sources::Embedded).map_err(refused)?;
    let mut pipelines = Pipelines::new(Arc::clone(device));
    pipelines.compile(&[&kernel])?;
    let target = device.storage("tiles", tiles.len() as u64);
    device.queue.write_buffer(&target, 0, tiles);
    for piece in pieces {
        let bytes = piece.blocks.len() as u32;
        let units = kernels::units(from, bytes);
        let too_large = || RuntimeError::DispatchTooLarge { kernel: kernel.label.clone(), units };
        let [x, y, z] = dispatch_size(units, device.limits()).ok_or_else(too_large)?;
        let pipeline = pipelines.get(&kernel.hash).ok_or_else(too_large)?;
        let raw = device.storage("raw", u64::from(bytes));
        // Writes to a buffer are of whole words; what lies behind the piece must not be seen.
        let mut padded = piece.blocks.to_vec();
        padded.resize(piece.blocks.len().next_multiple_of(4), 0xFF);
        device.queue.write_buffer(&raw, 0, &padded);
        let params = device.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("params"),
            size: 16,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let values = kernels::params(from, bytes, piece.first_tile);
        device.queue.write_buffer(&params, 0, bytemuck::cast_slice(&values));
        let buffers = BTreeMap::from([("params", &params), ("raw", &raw), ("tiles", &target)]);
        let entries: Vec<wgpu::BindGroupEntry<'_>> = kernel
            .reflection
            .bindings
            .iter()
            .filter_map(|b| Some((b.number, buffers.get(b.name.as_str())?)))
            .map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() })
            .collect();
        let layout = &pipeline.layout;
        let descriptor = wgpu::BindGroupDescriptor { label: None, layout, entries: &entries };
        let group = device.device.create_bind_group(&descriptor);
        let mut encoder = device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&pipeline.pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(x, y, z);
        }
        device.queue.submit([encoder.finish()]);
    }
    device.read(&target, 0, tiles.len() as u64)
}
