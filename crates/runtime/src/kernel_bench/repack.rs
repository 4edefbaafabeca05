//! Repacking on the device, a dispatch a chunk, as the weights of a model are repacked.

use crate::pipelines::Pipelines;
use crate::residency::RepackKernel;
use crate::{Device, RuntimeError};
use std::sync::Arc;
use wgoose_kernels::Catalogue;
use wgoose_kernels::repack::Chunk;

/// What becomes of `matrix`, as on the GPU, when chunks are repacked into it, each given as in a file. All chunks have
/// the format of the first.
///
/// # Errors
/// Nothing is repacked to that format, a chunk is too large for one dispatch, or the device fails.
pub fn repack(device: &Arc<Device>, matrix: &[u8], chunks: &[(Chunk, &[u8])]) -> Result<Vec<u8>, RuntimeError> {
    let Some((first, _)) = chunks.first() else { return Ok(matrix.to_vec()) };
    let kernel = RepackKernel::new(device, &mut Pipelines::new(Arc::clone(device)), &Catalogue::embedded(), first.to)?;
    let target = device.storage("matrix", matrix.len() as u64);
    device.queue.write_buffer(&target, 0, matrix);
    for (chunk, blocks) in chunks {
        let raw = device.storage("raw", u64::from(chunk.bytes));
        // Writes to a buffer are of whole words; what follows the chunk must not be seen.
        let mut padded = blocks.to_vec();
        padded.resize(blocks.len().next_multiple_of(4), 0xFF);
        device.queue.write_buffer(&raw, 0, &padded);
        let mut encoder = device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        kernel.encode(device, &raw, *chunk, &target.as_entire_binding(), &mut encoder)?;
        device.queue.submit([encoder.finish()]);
    }
    device.read(&target, 0, matrix.len() as u64, "repacking a matrix")
}
