//! Model files as they are written: the place, format and name of each tensor. The numbers come from the caller
//! (`Rows`). Synthetic and converted models are written by it.
//!
//! ```text
//! outline -> layout: tensors, offsets -> gguf | safetensors: header -> stream: the file
//!               Rows: the bytes of some rows of a tensor ------------------^
//! ```

mod chosen;
mod error;
mod gguf;
mod layout;
mod mix;
mod outline;
mod safetensors;
mod setting;
mod stream;

pub use chosen::ChosenFormats;
pub use error::WriteError;
pub use mix::{Mix, UnknownMix};
pub use setting::{Setting, UnknownSetting};

pub(crate) use layout::Tensor;
pub(crate) use outline::Outline;
pub(crate) use stream::Rows;

use crate::names::Container;
use layout::Layout;
use std::ops::ControlFlow;
use std::path::Path;
use wgoose_files::Existing;

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteReport {
    /// Length of the file.
    pub bytes: u64,
    /// Number of tensors in it.
    pub tensors: usize,
    /// Number of weights in them.
    pub weights: u64,
}

/// Is shown the bytes done and in total, on the thread that called; a break ends the writing ([`WriteError::Stopped`]).
pub type Progress<'a> = dyn FnMut(u64, u64) -> ControlFlow<()> + 'a;

/// A [`Progress`] that ignores what it is shown.
pub fn unwatched(_done: u64, _total: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Writes a file, showing `progress` the bytes done and in total. It appears under its name when it is complete and
/// `rows` is content with it; otherwise nothing is left behind.
pub(crate) fn write<R: Rows>(
    outline: &Outline<'_>,
    rows: &R,
    path: &Path,
    existing: Existing,
    progress: &mut Progress<'_>,
) -> Result<WriteReport, R::Error> {
    let (layout, header) = plan(outline)?;
    stream::write(rows, &layout, &header, path, existing, progress)?;
    Ok(WriteReport {
        bytes: header.len() as u64 + layout.data_len,
        tensors: layout.tensors.len(),
        weights: layout.tensors.iter().map(Tensor::weights).sum(),
    })
}

/// Bytes of the file, written or not.
pub(crate) fn bytes(outline: &Outline<'_>) -> Result<u64, WriteError> {
    let (layout, header) = plan(outline)?;
    Ok(header.len() as u64 + layout.data_len)
}

/// Where everything lies, and the bytes before the first tensor.
fn plan(outline: &Outline<'_>) -> Result<(Layout, Vec<u8>), WriteError> {
    outline.shape.validate()?;
    if !outline.shape.embedding_norm {
        return Err(WriteError::FoldedNorm);
    }
    match outline.container {
        Container::Gguf if outline.shape.deep_embed.is_some() => {
            Err(WriteError::NoGgufNames(outline.shape.architecture()))
        }
        Container::Gguf if !outline.heads.is_empty() => Err(WriteError::NoGgufHeads),
        Container::Gguf => {
            let layout = Layout::new(outline, gguf::ALIGNMENT)?;
            let header = gguf::header(outline, &layout)?;
            Ok((layout, header))
        }
        Container::Safetensors if !outline.set.is_empty() => Err(WriteError::NoMetadata),
        Container::Safetensors if outline.chosen.is_some() => Err(WriteError::OneFormat),
        Container::Safetensors if outline.mix.is_quantised() => Err(WriteError::FloatsOnly(outline.mix)),
        Container::Safetensors => {
            let layout = Layout::new(outline, 1)?;
            let header = safetensors::header(&layout);
            Ok((layout, header))
        }
        Container::Pth => Err(WriteError::Container(outline.container)),
    }
}
