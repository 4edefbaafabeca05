//! The tensor section of a GGUF file.

use super::GgufError;
use super::cursor::Cursor;
use crate::blocks::SourceFormat;
use crate::contents::{Directory, Element};
use wgoose_graph::Format;

/// A tensor as the file describes it; `offset` counts from the start of the data section.
#[derive(Debug)]
struct Described<'a> {
    name: &'a str,
    element: Element,
    dims: Vec<usize>,
    offset: u64,
}

/// Reads the descriptions of `count` tensors and places them in the data section behind them.
pub(super) fn read(
    cursor: &mut Cursor<'_>,
    count: u64,
    alignment: u64,
    file_len: usize,
) -> Result<Directory, GgufError> {
    let mut described = Vec::new();
    for _ in 0..count {
        described.push(describe(cursor)?);
    }
    let data = (cursor.offset() as u64).next_multiple_of(alignment);
    let mut directory = Directory::new(file_len);
    for Described { name, element, dims, offset } in described {
        if !offset.is_multiple_of(alignment) {
            return Err(GgufError::Misaligned { tensor: name.to_owned(), offset, alignment });
        }
        // A sum beyond 64 bits lies beyond every file: the directory refuses it.
        directory.insert(name, element, dims, data.saturating_add(offset))?;
    }
    directory.refuse_overlaps()?;
    Ok(directory)
}

fn describe<'a>(cursor: &mut Cursor<'a>) -> Result<Described<'a>, GgufError> {
    let name = cursor.name("name of a tensor")?;
    let offset = cursor.offset();
    let count = cursor.u32("number of dimensions")?;
    if !(1..=4).contains(&count) {
        return Err(GgufError::Dimensions { tensor: name.to_owned(), count, offset });
    }
    let mut dims = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let offset = cursor.offset();
        let size = cursor.u64("size of a tensor")?;
        dims.push(usize::try_from(size).map_err(|_| GgufError::Size { tensor: name.to_owned(), size, offset })?);
    }
    dims.reverse(); // the file begins with the fastest-varying
    let element = element(cursor.u32("type of a tensor")?);
    Ok(Described { name, element, dims, offset: cursor.u64("offset of a tensor")? })
}

/// Types by their number in ggml's `enum ggml_type`.
fn element(kind: u32) -> Element {
    if let Some(format) = Format::in_files().find(|f| f.info().ggml_type == kind) {
        return Element::Known(format);
    }
    match SourceFormat::of_ggml_type(kind) {
        Some(format) => Element::Source(format),
        None => Element::Other(format!("ggml type {kind}")),
    }
}
