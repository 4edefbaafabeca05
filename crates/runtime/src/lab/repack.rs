//! Repacking on the device, a dispatch a piece, as the weights of a model are repacked.

use crate::pipelines::Pipelines;
use crate::weights::RepackKernel;
use crate::{Device, RuntimeError};
use std::sync::Arc;
use wgoose_kernels::Sources;
use wgoose_kernels::repack::Piece;

/// What becomes of `matrix`, as it lies on the GPU, when pieces of it are repacked into it: each with its blocks as they
/// lie in a file. All pieces have the format of the first.
///
/// # Errors
/// Nothing is repacked to that format, a piece is too large for one dispatch, or the device fails.
pub fn repack(device: &Arc<Device>, matrix: &[u8], pieces: &[(Piece, &[u8])]) -> Result<Vec<u8>, RuntimeError> {
    let Some((first, _)) = pieces.first() else { return Ok(matrix.to_vec()) };
    let kernel = RepackKernel::new(device, &mut Pipelines::new(Arc::clone(device)), &Sources::Embedded, first.to)?;
    let target = device.storage("matrix", matrix.len() as u64);
    device.queue.write_buffer(&target, 0, matrix);
    for (piece, blocks) in pieces {
        let raw = device.storage("raw", u64::from(piece.bytes));
        // Writes to a buffer are of whole words; what lies behind the piece must not be seen.
        let mut padded = blocks.to_vec();
        padded.resize(blocks.len().next_multiple_of(4), 0xFF);
        device.queue.write_buffer(&raw, 0, &padded);
        let mut encoder = device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        kernel.encode(device, &raw, *piece, &target.as_entire_binding(), &mut encoder)?;
        device.queue.submit([encoder.finish()]);
    }
    device.read(&target, 0, matrix.len() as u64)
}
