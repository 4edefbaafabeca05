//! The header of a safetensors file: its length (64 bits), then JSON padded with spaces to a multiple of 8.

use super::layout::Layout;
use std::fmt::Write;

/// The bytes before the first tensor. Names are the checkpoint's: no character of them needs an escape.
pub(super) fn header(layout: &Layout) -> Vec<u8> {
    let mut json = String::from(r#"{"__metadata__":{"format":"pt"}"#);
    for tensor in &layout.tensors {
        let (begin, end) = (tensor.offset, tensor.offset + tensor.bytes);
        let (name, format, dims) = (&tensor.name, tensor.format, &tensor.dims);
        // Writing to a string cannot fail.
        let _ = write!(json, r#","{name}":{{"dtype":"{format}","shape":{dims:?},"data_offsets":[{begin},{end}]}}"#);
    }
    json.push('}');
    json.extend(std::iter::repeat_n(' ', json.len().next_multiple_of(8) - json.len()));
    let mut header = (json.len() as u64).to_le_bytes().to_vec();
    header.extend(json.bytes());
    header
}
