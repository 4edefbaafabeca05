//! Repacking: the kernels that interleave what a file holds, or lay it out K-major, once, as weights are uploaded.
//!
//! A matrix is repacked in chunks of whole groups of eight blocks, or of whole panels of eight rows; only the last chunk may end
//! within one. A dispatch binds `params` ([`Chunk::params`]), `raw`, where a chunk begins at 0, and the whole matrix as
//! `interleaved` or `k_major`.

use crate::{Catalogue, Kernel, KernelError, Limits, Refusal};
use wgoose_graph::Format;

/// Threads of a workgroup (must match `WG` in `kernels-wgsl/device/repack/{interleave,k_major}.wgsl`).
const THREADS: u64 = 64;

/// The kernel that makes matrices of a format that no file holds. It is one kernel for chunks of any size: its workgroups are
/// 1, [`Chunk::workgroups`] has those of a chunk.
///
/// # Errors
/// Nothing is repacked to that format, the kernel's file is wrong, or the device cannot run it.
pub fn kernel(to: Format, limits: &Limits, catalogue: &Catalogue) -> Result<Kernel, KernelError> {
    if !to.is_repacked() {
        return Err(Refusal::None("files hold that format as it is").into());
    }
    let path = format!("device/repack/{}", to.name().to_lowercase());
    Kernel::of_device(catalogue.library(), &path, &[], limits)
}

/// A part of a matrix that is repacked at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The format it gets.
    pub to: Format,
    /// Bytes of its blocks.
    pub bytes: u32,
    /// First group of eight blocks, or first panel of rows, in the matrix.
    pub first: u32,
    /// Columns of the matrix.
    pub cols: u32,
    /// Rows of the matrix.
    pub rows: u32,
}

impl Chunk {
    /// Bytes of what a chunk has a whole number of: groups of eight blocks, or panels of eight rows of `cols` columns.
    pub fn quantum(to: Format, cols: u32) -> u64 {
        let blocks = match to.is_k_major() {
            true => cols as usize / to.block_weights() * Format::PANEL_ROWS,
            false => Format::INTERLEAVED_BLOCKS,
        };
        (to.block_bytes() * blocks) as u64
    }

    /// Workgroups that repack it.
    pub fn workgroups(&self) -> u64 {
        // What a thread writes.
        let store = if self.to.is_k_major() { 4 } else { 16 };
        let quantum = Chunk::quantum(self.to, self.cols).max(1);
        (u64::from(self.bytes).div_ceil(quantum) * quantum).div_ceil(store * THREADS)
    }

    /// Its uniform block (must match `Params` in `kernels-wgsl/device/repack/{interleave,k_major}.wgsl`).
    pub fn params(&self) -> [u32; 4] {
        match self.to.is_k_major() {
            true => [self.bytes, self.first, self.cols, self.rows.div_ceil(Format::PANEL_ROWS as u32)],
            false => [self.bytes, self.first, self.workgroups() as u32, 0],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;

    #[test]
    fn repack_kernels_make_the_formats_that_no_file_stores() {
        let limits = Limits::webgpu();
        for format in Format::all() {
            let kernel = kernel(format, &limits, &Catalogue::embedded());
            if !format.is_repacked() {
                assert!(matches!(kernel, Err(KernelError::Refused(_))), "{format}");
                continue;
            }
            let kernel = kernel.unwrap();
            let bound = |name: &str| kernel.facts.bindings.iter().find(|b| b.name == name).map(|b| b.access);
            let goal = if format.is_k_major() { "k_major" } else { "interleaved" };
            let bound = ["params", "raw", goal].map(bound);
            assert_eq!(bound, [Some(Access::Uniform), Some(Access::Read), Some(Access::ReadWrite)], "{format}");
            assert_eq!(u64::from(kernel.facts.workgroup_size[0]), THREADS);
            // Any number of rows has enough threads for what becomes of them, and no workgroup without work.
            for rows in [1, 8, 9, 1000] {
                let bytes = format.bytes(rows, 256).unwrap() as u64;
                let raw = format.as_in_file().bytes(rows, 256).unwrap() as u32;
                let count = Chunk { to: format, bytes: raw, first: 0, cols: 256, rows: rows as u32 }.workgroups();
                let store = if format.is_k_major() { 4 } else { 16 };
                assert!(count * THREADS * store >= bytes && (count - 1) * THREADS * store < bytes, "{format}");
            }
        }
    }
}
