//! The header of a GGUF file, version 3 (layout: ggml's `docs/gguf.md`).

mod keys;
mod tokens;

use super::layout::Layout;
use super::{Outline, WriteError};
use crate::gguf::pair::push_string;

/// Tensors begin at multiples of this, the default where a file states no other.
pub(super) const ALIGNMENT: u64 = 32;

/// The bytes before the first tensor.
pub(super) fn header(outline: &Outline<'_>, layout: &Layout) -> Result<Vec<u8>, WriteError> {
    let pairs = keys::pairs(outline, layout)?;
    let mut header = b"GGUF".to_vec();
    header.extend(3_u32.to_le_bytes());
    header.extend((layout.tensors.len() as u64).to_le_bytes());
    header.extend((pairs.len() as u64).to_le_bytes());
    for pair in &pairs {
        pair.push_to(&mut header);
    }
    for tensor in &layout.tensors {
        push_string(&mut header, &tensor.name);
        header.extend((tensor.dims.len() as u32).to_le_bytes());
        for dim in tensor.dims.iter().rev() {
            header.extend(u64::from(*dim).to_le_bytes()); // the fastest-varying first
        }
        header.extend(tensor.format.info().ggml_type.to_le_bytes());
        header.extend(tensor.offset.to_le_bytes());
    }
    header.resize(header.len().next_multiple_of(ALIGNMENT as usize), 0);
    Ok(header)
}
