//! The kinds of model files.

use super::{Convention, checkpoint, gguf};
use std::fmt;
use std::io::Read;
use std::path::Path;

/// The kind of a model file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Container {
    /// llama.cpp's GGUF.
    Gguf,
    /// A safetensors file with the checkpoint's names (web-rwkv's `.st`).
    Safetensors,
    /// A checkpoint as `torch.save` writes it.
    Pth,
}

impl Container {
    /// Tells the container by the file's first bytes; `None` if they belong to none of them.
    pub(crate) fn detect(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [b'G', b'G', b'U', b'F', ..] => Some(Container::Gguf),
            [b'P', b'K', 3, 4, ..] => Some(Container::Pth),
            [_, _, _, _, _, _, _, _, b'{', ..] => Some(Container::Safetensors),
            _ => None,
        }
    }

    /// What a file is by its first bytes; `None` where it is none of them, or cannot be read.
    pub fn of_file(path: &Path) -> Option<Self> {
        let mut start = Vec::new();
        wgoose_files::open(path).ok()?.take(16).read_to_end(&mut start).ok()?;
        Container::detect(&start)
    }

    /// The names that are written into such a file.
    pub(crate) fn written_names(self) -> &'static Convention {
        match self {
            Container::Gguf => &gguf::NAMES,
            Container::Safetensors | Container::Pth => &checkpoint::NAMES,
        }
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Container::Gguf => "GGUF",
            Container::Safetensors => "safetensors",
            Container::Pth => ".pth",
        })
    }
}
