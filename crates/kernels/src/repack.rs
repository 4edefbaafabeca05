//! Repacking: the kernels that bring the blocks of a file in tiles, once, as weights are uploaded.
//!
//! A matrix is repacked in pieces of whole tiles; only the last piece may end within one. A dispatch binds `params`
//! ([`params`]), `raw`, where a piece lies from the beginning on, and `tiles`, the whole matrix.

use crate::source::{File, Sources, wgsl};
use crate::{Kernel, Limits, Refusal, Tunables, specialise};
use wgoose_graph::Format;

/// Invocations of a workgroup (twin: `WG` in `kernels-wgsl/repack/tiles.wgsl`).
const INVOCATIONS: u64 = 64;

/// Bytes that an invocation writes.
const STORE: u64 = 16;

/// The kernel that repacks a format of files. It is one kernel for pieces of any size: its `units` are those of one tile,
/// [`units`] has those of a piece.
///
/// # Errors
/// The format has no tiles, the kernel's file cannot be read or is wrong, or the device cannot run it.
pub fn kernel(from: Format, limits: &Limits, sources: &Sources) -> Result<Kernel, Refusal> {
    let file = file(from).ok_or(Refusal::Shape("only Q8_0, Q4_0 and Q6_K can be repacked"))?;
    let specialised = specialise::specialise(file, sources, None, &Tunables::default())?;
    let label = format!("repack/{}", from.name().to_lowercase());
    Kernel::assemble(label, specialised, units(from, from.block_bytes() as u32), limits)
}

/// Workgroups that repack a piece of `raw_bytes` bytes of blocks.
pub fn units(from: Format, raw_bytes: u32) -> u64 {
    let tile = (from.block_bytes() * Format::TILE_BLOCKS) as u64;
    (u64::from(raw_bytes).div_ceil(tile) * tile).div_ceil(STORE * INVOCATIONS)
}

/// The uniform block of a piece of `raw_bytes` bytes of blocks that becomes the tiles from `first_tile` on (twin: `Params`
/// in `kernels-wgsl/repack/tiles.wgsl`).
pub fn params(from: Format, raw_bytes: u32, first_tile: u32) -> [u32; 4] {
    [raw_bytes, first_tile, units(from, raw_bytes) as u32, 0]
}

fn file(from: Format) -> Option<File> {
    match from {
        Format::Q8_0 => Some(wgsl!("repack/q8_0.wgsl")),
        Format::Q4_0 => Some(wgsl!("repack/q4_0.wgsl")),
        Format::Q6_K => Some(wgsl!("repack/q6_k.wgsl")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;

    #[test]
    fn what_has_tiles_can_be_repacked() {
        let limits = Limits::webgpu();
        for format in Format::ON_GPU {
            let kernel = kernel(format, &limits, &Sources::Embedded);
            let Some(tiled) = format.tiled() else {
                assert!(matches!(kernel, Err(Refusal::Shape(_))), "{format}");
                continue;
            };
            let kernel = kernel.unwrap();
            let bound = |name: &str| kernel.reflection.bindings.iter().find(|b| b.name == name).map(|b| b.access);
            let bound = ["params", "raw", "tiles"].map(bound);
            assert_eq!(bound, [Some(Access::Uniform), Some(Access::Read), Some(Access::ReadWrite)], "{format}");
            assert_eq!(u64::from(kernel.reflection.workgroup_size[0]), INVOCATIONS);
            // Any number of blocks has enough invocations for its tiles, and no workgroup without work.
            for blocks in [1, 8, 9, 1000] {
                let bytes = tiled.bytes(blocks, tiled.block_weights()).unwrap() as u64;
                let units = units(format, (blocks * format.block_bytes()) as u32);
                assert!(units * INVOCATIONS * STORE >= bytes && (units - 1) * INVOCATIONS * STORE < bytes, "{format}");
            }
        }
    }
}
