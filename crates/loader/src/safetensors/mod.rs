//! safetensors: the header's length (64 bits), the header (JSON), the tensors.
//!
//! The header is read with serde_json and not with the `safetensors` crate, whose errors name neither the tensor nor
//! the place for the most common damage, and which accepts a duplicate name.

mod error;
mod header;

pub use error::SafetensorsError;

use crate::contents::{About, Contents, Directory, Element, byte_len};
use header::{Described, Header};
use wgoose_graph::Format;

/// The limit of the reference implementation.
const MAX_HEADER: u64 = 100_000_000;
/// Where the header begins.
const PREFIX: usize = 8;

/// Reads everything but the tensors' bytes.
pub(crate) fn read(file: &[u8]) -> Result<Contents, SafetensorsError> {
    let mut prefix = [0; PREFIX];
    let have = file.len().min(PREFIX);
    prefix[..have].copy_from_slice(&file[..have]);
    let len = u64::from_le_bytes(prefix);
    if len > MAX_HEADER {
        return Err(SafetensorsError::HeaderTooLarge { len, limit: MAX_HEADER });
    }
    let data = PREFIX + len as usize;
    let json = file.get(PREFIX..data).ok_or(SafetensorsError::HeaderLength { len, end: file.len() })?;
    let Header(entries) = serde_json::from_slice(json)?;

    let mut directory = Directory::new(file.len());
    for (name, tensor) in entries {
        insert(&mut directory, &name, tensor, data, file.len())?;
    }
    directory.refuse_overlaps()?;
    Ok(Contents {
        directory,
        declared: Vec::new(),
        norm_epsilon: None,
        header: 0..data,
        vocabulary: None,
        pairs: None,
        about: About::default(),
        part: None,
    })
}

fn insert(
    directory: &mut Directory,
    name: &str,
    Described { dtype, shape, data_offsets: [begin, end] }: Described,
    data: usize,
    file_len: usize,
) -> Result<(), SafetensorsError> {
    let len = file_len - data;
    if begin > end || end > len as u64 {
        return Err(SafetensorsError::Offsets { tensor: name.to_owned(), begin, end, len });
    }
    let offset = data as u64 + begin;
    let element = match dtype.as_str() {
        "F32" => Element::Known(Format::F32),
        "F16" => Element::Known(Format::F16),
        "BF16" => Element::Known(Format::BF16),
        _ => Element::Other(dtype.clone()),
    };
    if let Element::Known(format) = element
        && let Some(expected) = byte_len(format, &shape)
        && expected as u64 != end - begin
    {
        let tensor = name.to_owned();
        return Err(SafetensorsError::Length { tensor, offset, found: end - begin, dims: shape, dtype, expected });
    }
    Ok(directory.insert(name, element, shape, offset)?)
}
