//! Writes models into several files, as Hugging Face's libraries and llama.cpp's `gguf-split` do.

use super::gguf::{Gguf, Value};
use super::{TINY, Tensor, checkpoint, pth, safetensors};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use wgoose_graph::Format;

/// Shards of [`folder`].
pub(crate) const COUNT: usize = 3;

/// How a model is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Safetensors,
    Bin,
    Gguf,
}

impl Form {
    pub(crate) const ALL: [Form; 3] = [Form::Safetensors, Form::Bin, Form::Gguf];

    pub(crate) fn shard(self, number: usize) -> String {
        let (stem, ending) = match self {
            Form::Safetensors => ("model", "safetensors"),
            Form::Bin => ("pytorch_model", "bin"),
            Form::Gguf => ("goose-F16", "gguf"),
        };
        format!("{stem}-{number:05}-of-{COUNT:05}.{ending}")
    }

    /// The name of the index; split GGUF files have none.
    pub(crate) fn index(self) -> Option<&'static str> {
        match self {
            Form::Safetensors => Some("model.safetensors.index.json"),
            Form::Bin => Some("pytorch_model.bin.index.json"),
            Form::Gguf => None,
        }
    }
}

/// The tensors of the shards: each third one.
pub(crate) fn dealt<T: Clone>(tensors: &[T]) -> Vec<Vec<T>> {
    (0..COUNT).map(|first| tensors.iter().skip(first).step_by(COUNT).cloned().collect()).collect()
}

/// The tiny model in one file.
pub(crate) fn whole(form: Form) -> Vec<u8> {
    match form {
        Form::Safetensors => safetensors::write(&checkpoint(&TINY, Format::F16, false)),
        Form::Bin => pth::write(&checkpoint(&TINY, Format::F16, true), pth::Style::Plain),
        Form::Gguf => Gguf::of(&TINY).write(),
    }
}

/// The parts of a split GGUF file.
pub(crate) fn parts() -> Vec<Gguf> {
    let file = Gguf::of(&TINY);
    let part = |(number, tensors): (usize, Vec<Tensor>)| {
        let keys = if number == 0 { file.keys.clone() } else { Vec::new() };
        let mut part = Gguf { version: 3, keys, tensors, alignment: 32 };
        part.set("split.no", Value::Raw(2, (number as u16).to_le_bytes().to_vec()));
        part.set("split.count", Value::Raw(2, (COUNT as u16).to_le_bytes().to_vec()));
        part.set("split.tensors.count", Value::Raw(5, (file.tensors.len() as i32).to_le_bytes().to_vec()));
        part
    };
    dealt(&file.tensors).into_iter().enumerate().map(part).collect()
}

/// A folder with the tiny model in three shards, and an index where there is one.
pub(crate) fn folder(form: Form) -> tempfile::TempDir {
    folder_of(form, &checkpoint(&TINY, Format::F16, form != Form::Safetensors))
}

/// As [`folder`], of these tensors; split GGUF files have their own.
pub(crate) fn folder_of(form: Form, tensors: &[Tensor]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut weight_map = BTreeMap::new();
    for (i, shard) in dealt(tensors).into_iter().enumerate() {
        let name = form.shard(i + 1);
        weight_map.extend(shard.iter().map(|tensor| (tensor.name.clone(), name.clone())));
        let file = match form {
            Form::Safetensors => safetensors::write(&shard),
            Form::Bin => pth::write(&shard, pth::Style::Plain),
            Form::Gguf => parts()[i].write(),
        };
        write(folder.path(), &name, &file);
    }
    if let Some(index) = form.index() {
        let total: usize = tensors.iter().map(|tensor| tensor.bytes.len()).sum();
        let text = serde_json::json!({ "metadata": { "total_size": total }, "weight_map": weight_map });
        write(folder.path(), index, text.to_string().as_bytes());
    }
    folder
}

pub(crate) fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}
