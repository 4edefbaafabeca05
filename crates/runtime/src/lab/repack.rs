//! Repacking on the device, a dispatch a piece, as the weights of a model are repacked.

use crate::pipelines::Pipelines;
use crate::weights::RepackKernel;
use crate::{Device, RuntimeError};
use std::sync::Arc;
use wgoose_graph::Format;
use wgoose_kernels::Sources;

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
    let kernel = RepackKernel::new(device, &mut Pipelines::new(Arc::clone(device)), &Sources::Embedded, from)?;
    let target = device.storage("tiles", tiles.len() as u64);
    device.queue.write_buffer(&target, 0, tiles);
    for piece in pieces {
        let bytes = piece.blocks.len() as u32;
        let raw = device.storage("raw", u64::from(bytes));
        // Writes to a buffer are of whole words; what lies behind the piece must not be seen.
        let mut padded = piece.blocks.to_vec();
        padded.resize(piece.blocks.len().next_multiple_of(4), 0xFF);
        device.queue.write_buffer(&raw, 0, &padded);
        let mut encoder = device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        kernel.encode(device, &raw, bytes, &target.as_entire_binding(), piece.first_tile, &mut encoder)?;
        device.queue.submit([encoder.finish()]);
    }
    device.read(&target, 0, tiles.len() as u64)
}
