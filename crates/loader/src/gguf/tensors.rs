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
        None => Element::Other(match other_type(kind) {
            Some(name) => format!("{name} (ggml type {kind})"),
            None => format!("ggml type {kind}"),
        }),
    }
}

/// The name of a type that is not read, by its number in ggml's `enum ggml_type`.
fn other_type(kind: u32) -> Option<&'static str> {
    Some(match kind {
        4 => "Q4_2",
        5 => "Q4_3",
        9 => "Q8_1",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        21 => "IQ3_S",
        22 => "IQ2_S",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        31 => "Q4_0_4_4",
        32 => "Q4_0_4_8",
        33 => "Q4_0_8_8",
        34 => "TQ1_0",
        35 => "TQ2_0",
        36 => "IQ4_NL_4_4",
        37 => "IQ4_NL_4_8",
        38 => "IQ4_NL_8_8",
        39 => "MXFP4",
        40 => "NVFP4",
        41 => "Q1_0",
        42 => "Q2_0",
        _ => return None,
    })
}
