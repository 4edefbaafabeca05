//! Compares each tensor, by naming, container and float format, with web-rwkv's reader of a file in its convention.

use crate::support::gguf::Gguf;
use crate::support::namings::{NAMINGS, Renaming};
use crate::support::pth::{self, Style};
use crate::support::shards::{Form, folder_of};
use crate::support::{TINY, Tensor, checkpoint, safetensors as st};
use safetensors::SafeTensors;
use std::path::Path;
use web_rwkv::runtime::loader::Reader;
use wgoose_graph::Format;
use wgoose_web_rwkv::ModelReader;

/// Tensors under the names of a naming, the six mixes of a layer in one where it has them so.
fn renamed(tensors: &[Tensor], naming: &Renaming) -> Vec<Tensor> {
    let mut renamed: Vec<Tensor> = Vec::new();
    for tensor in tensors {
        let follows = |mix: &char| tensor.name.ends_with(&format!(".att.x_{mix}"));
        match renamed.last_mut() {
            Some(stack) if naming.is_stacked && ['w', 'k', 'v', 'a', 'g'].iter().any(follows) => {
                stack.dims[0] += 1;
                stack.bytes.extend(&tensor.bytes);
            }
            _ => renamed.push(Tensor { name: (naming.rename)(&tensor.name), ..tensor.clone() }),
        }
    }
    renamed
}

/// Every tensor but the junk in layer 0, its name first, without the dimensions of one.
fn contents(reader: &impl Reader) -> Vec<(String, Vec<usize>, Vec<u8>)> {
    let junk = ["blocks.0.att.v0", "blocks.0.att.v1", "blocks.0.att.v2"];
    let names = reader.names().into_iter().filter(|name| !junk.contains(name));
    let mut contents: Vec<_> = names
        .map(|name| {
            assert!(reader.contains(name));
            let (dtype, mut shape, bytes) = reader.tensor(name).unwrap();
            assert_eq!(dtype, safetensors::Dtype::F16);
            assert_eq!(shape, reader.shape(name).unwrap());
            shape.retain(|dim| *dim != 1);
            (name.to_owned(), shape, bytes.into_owned())
        })
        .collect();
    contents.sort();
    contents
}

/// Whether a file or a folder has these tensors.
fn has(path: &Path, wanted: &[(String, Vec<usize>, Vec<u8>)], case: &str) {
    let reader = ModelReader::open(path).unwrap_or_else(|why| panic!("{case}: {why}"));
    assert!(contents(&reader) == wanted, "{case}: other tensors");
}

#[test]
fn every_naming_and_container_has_the_tensors_of_web_rwkv_s_own_file() {
    let own = st::write(&checkpoint(&TINY, Format::F16, false));
    let wanted = contents(&SafeTensors::deserialize(&own).unwrap());
    assert_eq!(wanted.len(), 6 + 3 * 33 - 3);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    for naming in &NAMINGS {
        let formats =
            if naming.title == "authors" { &[Format::F32, Format::F16, Format::BF16][..] } else { &[Format::F16] };
        for &format in formats {
            let case = format!("{}, {format}", naming.title);
            // A container has an orientation; some namings have another.
            let out_in = renamed(&checkpoint(&TINY, format, naming.in_out.unwrap_or(false)), naming);
            std::fs::write(&path, st::write(&out_in)).unwrap();
            has(&path, &wanted, &format!("{case}, safetensors"));
            has(folder_of(Form::Safetensors, &out_in).path(), &wanted, &format!("{case}, shards"));
            let in_out = renamed(&checkpoint(&TINY, format, naming.in_out.unwrap_or(true)), naming);
            std::fs::write(&path, pth::write(&in_out, Style::Plain)).unwrap();
            has(&path, &wanted, &format!("{case}, .pth"));
        }
    }
    std::fs::write(&path, Gguf::of(&TINY).write()).unwrap();
    has(&path, &wanted, "GGUF");
}
