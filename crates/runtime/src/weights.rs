//! Weights on the GPU: each tensor is uploaded when it is first asked for, from the map, as it lies in the file.
//!
//! Vectors become F32. A matrix larger than the device's largest binding is split into windows of whole rows, each a
//! buffer of its own.

use crate::{Device, RuntimeError};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use wgoose_graph::{Weight, WeightClass};
use wgoose_kernels::Limits;
use wgoose_loader::Model;

/// Bytes handed to the queue at a time; it holds a copy until the device has taken it.
const PIECE: usize = 16 << 20;

/// The windows of whole rows in which a matrix is bound.
///
/// # Errors
/// A single row is larger than the largest binding.
pub fn windows(weight: Weight, rows: u32, row_bytes: u64, limits: &Limits) -> Result<Vec<Range<u32>>, RuntimeError> {
    let limit = limits.storage_binding.min(limits.buffer) / 16 * 16;
    let at_once = u32::try_from(limit / row_bytes.max(1)).unwrap_or(u32::MAX);
    if at_once == 0 {
        return Err(RuntimeError::RowTooLarge { weight, row_bytes, limit });
    }
    Ok((0..rows).step_by(at_once as usize).map(|first| first..rows.min(first.saturating_add(at_once))).collect())
}

/// The model's tensors on a device, filled on first use.
pub(crate) struct Weights {
    device: Arc<Device>,
    model: Arc<Model>,
    loaded: HashMap<Weight, Vec<wgpu::Buffer>>,
    uploaded: u64,
}

impl Weights {
    pub(crate) fn new(device: Arc<Device>, model: Arc<Model>) -> Self {
        Weights { device, model, loaded: HashMap::new(), uploaded: 0 }
    }

    /// Bytes uploaded so far.
    pub(crate) fn uploaded(&self) -> u64 {
        self.uploaded
    }

    /// How a matrix is split.
    pub(crate) fn windows(&self, weight: Weight) -> Result<Vec<Range<u32>>, RuntimeError> {
        let view = self.model.tensor(weight);
        windows(weight, view.rows() as u32, view.row_bytes() as u64, self.device.limits())
    }

    /// The buffer of a window, uploaded now if it was not before.
    pub(crate) fn buffer(&mut self, weight: Weight, window: usize) -> Result<wgpu::Buffer, RuntimeError> {
        if !self.loaded.contains_key(&weight) {
            let buffers = self.upload(weight)?;
            self.loaded.insert(weight, buffers);
        }
        Ok(self.loaded[&weight][window].clone())
    }

    fn upload(&mut self, weight: Weight) -> Result<Vec<wgpu::Buffer>, RuntimeError> {
        let view = self.model.tensor(weight);
        let label = weight.to_string();
        if weight.class() == WeightClass::Vector {
            let data = view.to_f32();
            let buffer = self.device.storage(&label, data.len() as u64 * 4);
            self.device.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&data));
            self.uploaded += data.len() as u64 * 4;
            return Ok(vec![buffer]);
        }
        let mut buffers = Vec::new();
        for window in self.windows(weight)? {
            let bytes = view.row_bytes() * window.len();
            let buffer = self.device.storage(&label, bytes as u64);
            let mut upload = Upload { device: &self.device, buffer: &buffer, offset: 0, pending: 0 };
            if let Some(data) = view.contiguous() {
                let first = view.row_bytes() * window.start as usize;
                for piece in data[first..first + bytes].chunks(PIECE) {
                    upload.push(piece)?;
                }
            } else {
                // Whole rows whose bytes are a multiple of 4, as write_buffer needs.
                let rows = (PIECE / view.row_bytes().max(1)).next_multiple_of(4).max(4);
                let mut piece = Vec::new();
                for first in (window.start as usize..window.end as usize).step_by(rows) {
                    let last = (first + rows).min(window.end as usize);
                    piece.resize(view.row_bytes() * (last - first), 0);
                    view.copy_rows(first..last, &mut piece);
                    upload.push(&piece)?;
                }
            }
            self.uploaded += bytes as u64;
            buffers.push(buffer);
        }
        self.device.check("uploading weights")?;
        Ok(buffers)
    }
}

/// A buffer being filled from its start.
struct Upload<'a> {
    device: &'a Device,
    buffer: &'a wgpu::Buffer,
    offset: u64,
    pending: usize,
}

impl Upload<'_> {
    fn push(&mut self, bytes: &[u8]) -> Result<(), RuntimeError> {
        let whole = bytes.len() / 4 * 4;
        if whole > 0 {
            self.device.queue.write_buffer(self.buffer, self.offset, &bytes[..whole]);
        }
        if whole < bytes.len() {
            // Only the last piece of a tensor can end inside a word; the buffer has room to spare.
            let mut tail = [0; 4];
            tail[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            self.device.queue.write_buffer(self.buffer, self.offset + whole as u64, &tail);
        }
        self.offset += bytes.len() as u64;
        self.pending += bytes.len();
        if self.pending >= 4 * PIECE {
            // The queue keeps a copy of what is not submitted: bound it.
            self.device.queue.submit([]);
            self.device.wait("uploading weights")?;
            self.pending = 0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_matrices_are_split_by_rows() {
        let limits = Limits::webgpu();
        let split = windows(Weight::Head, 65536, 4096, &limits).unwrap();
        assert_eq!(split, [0..32768, 32768..65536]);
        assert_eq!(windows(Weight::Head, 10, 4096, &limits).unwrap(), std::slice::from_ref(&(0..10)));
        assert!(matches!(windows(Weight::Head, 10, 1 << 28, &limits), Err(RuntimeError::RowTooLarge { .. })));
    }
}
