//! Repacking: the kernels that bring what lies in a file in tiles or in columns, once, as weights are uploaded.
//!
//! A matrix is repacked in pieces of whole tiles or of whole eights of rows; only the last piece may end within one. A
//! dispatch binds `params` ([`Piece::params`]), `raw`, where a piece lies from the beginning on, and the whole matrix as
//! `tiles` or `columns`.

use crate::source::{File, Sources, wgsl};
use crate::{Kernel, Limits, Refusal, Tunables, specialise};
use wgoose_graph::Format;

/// Invocations of a workgroup (twin: `WG` in `kernels-wgsl/repack/tiles.wgsl` and `columns.wgsl`).
const INVOCATIONS: u64 = 64;

/// The kernel that makes matrices of a format that no file holds. It is one kernel for pieces of any size: its `units` are
/// 1, [`Piece::units`] has those of a piece.
///
/// # Errors
/// Nothing is repacked to that format, the kernel's file cannot be read or is wrong, or the device cannot run it.
pub fn kernel(to: Format, limits: &Limits, sources: &Sources) -> Result<Kernel, Refusal> {
    let file = file(to).ok_or(Refusal::Shape("it is no format in tiles or in columns"))?;
    let specialised = specialise::specialise(file, sources, None, &Tunables::default())?;
    Kernel::assemble(format!("repack/{}", to.name().to_lowercase()), specialised, 1, limits)
}

/// A piece of a matrix that is repacked at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The format it gets.
    pub to: Format,
    /// Bytes of its blocks.
    pub bytes: u32,
    /// First tile, or first eight of rows, in the matrix.
    pub first: u32,
    /// Columns of the matrix.
    pub cols: u32,
    /// Rows of the matrix.
    pub rows: u32,
}

impl Piece {
    /// Bytes of what a piece has a whole number of: tiles, or eights of rows of `cols` columns.
    pub fn quantum(to: Format, cols: u32) -> u64 {
        let blocks = match to.is_in_columns() {
            true => cols as usize / to.block_weights() * Format::COLUMN_ROWS,
            false => Format::TILE_BLOCKS,
        };
        (to.block_bytes() * blocks) as u64
    }

    /// Workgroups that repack it.
    pub fn units(&self) -> u64 {
        // What an invocation writes.
        let store = if self.to.is_in_columns() { 4 } else { 16 };
        let quantum = Piece::quantum(self.to, self.cols).max(1);
        (u64::from(self.bytes).div_ceil(quantum) * quantum).div_ceil(store * INVOCATIONS)
    }

    /// Its uniform block (twins: `Params` in `kernels-wgsl/repack/tiles.wgsl` and `columns.wgsl`).
    pub fn params(&self) -> [u32; 4] {
        match self.to.is_in_columns() {
            true => [self.bytes, self.first, self.cols, self.rows.div_ceil(Format::COLUMN_ROWS as u32)],
            false => [self.bytes, self.first, self.units() as u32, 0],
        }
    }
}

fn file(to: Format) -> Option<File> {
    match to {
        Format::Q8_0T => Some(wgsl!("repack/q8_0.wgsl")),
        Format::Q4_0T => Some(wgsl!("repack/q4_0.wgsl")),
        Format::Q6_KT => Some(wgsl!("repack/q6_k.wgsl")),
        Format::F16C => Some(wgsl!("repack/f16c.wgsl")),
        Format::Q8_0C => Some(wgsl!("repack/q8_0c.wgsl")),
        Format::Q4_0C => Some(wgsl!("repack/q4_0c.wgsl")),
        Format::Q4_KC => Some(wgsl!("repack/q4_kc.wgsl")),
        Format::Q6_KC => Some(wgsl!("repack/q6_kc.wgsl")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;

    #[test]
    fn what_no_file_holds_is_made() {
        let limits = Limits::webgpu();
        for format in Format::ON_GPU.into_iter().chain(Format::IN_COLUMNS) {
            let kernel = kernel(format, &limits, &Sources::Embedded);
            if !format.is_repacked() {
                assert!(matches!(kernel, Err(Refusal::Shape(_))), "{format}");
                continue;
            }
            let kernel = kernel.unwrap();
            let bound = |name: &str| kernel.reflection.bindings.iter().find(|b| b.name == name).map(|b| b.access);
            let goal = if format.is_in_columns() { "columns" } else { "tiles" };
            let bound = ["params", "raw", goal].map(bound);
            assert_eq!(bound, [Some(Access::Uniform), Some(Access::Read), Some(Access::ReadWrite)], "{format}");
            assert_eq!(u64::from(kernel.reflection.workgroup_size[0]), INVOCATIONS);
            // Any number of rows has enough invocations for what becomes of them, and no workgroup without work.
            for rows in [1, 8, 9, 1000] {
                let bytes = format.bytes(rows, 256).unwrap() as u64;
                let raw = format.as_in_file().bytes(rows, 256).unwrap() as u32;
                let units = Piece { to: format, bytes: raw, first: 0, cols: 256, rows: rows as u32 }.units();
                let store = if format.is_in_columns() { 4 } else { 16 };
                assert!(units * INVOCATIONS * store >= bytes && (units - 1) * INVOCATIONS * store < bytes, "{format}");
            }
        }
    }
}
