//! Synthetic RWKV-7 models: files of any size, container and mix of formats that behave like a model.
//!
//! The weights are drawn so that activations stay in range over thousands of tokens, logits spread as a trained
//! model's do, and no tensor can be lost or swapped without changing them (`law.rs` says how each is drawn). The same
//! options give the same bytes on every machine, whatever the number of threads.
//!
//! ```text
//! options -> layout: which tensor lies where, in which format -> gguf | safetensors: header -> stream: the file
//!               law, noise: the numbers of any row on its own ----------------------------------^
//! ```

mod error;
mod gguf;
mod law;
mod layout;
mod mix;
mod noise;
mod safetensors;
mod stream;

pub use error::SynthError;
pub use mix::{Mix, UnknownMix};

use crate::names::Container;
use layout::Layout;
use std::ops::Range;
use std::path::Path;
use wgoose_graph::{ModelShape, Weight};

/// What to write.
#[derive(Clone, Debug)]
pub struct SynthOptions {
    /// The model's sizes.
    pub shape: ModelShape,
    /// Chooses the weights.
    pub seed: u64,
    /// The kind of file: GGUF or safetensors.
    pub container: Container,
    /// Which format each tensor is stored in.
    pub mix: Mix,
    /// Scales `ffn.key` by 32 and `ffn.value` by 1/1024: the same function, but the squares between them come near the
    /// limit of f16, as they do in some trained models. For float mixes only. In an F16 file of a large model
    /// `ffn.value` is then subnormal, which GPUs may flush to zero: BF16 and F32 are free of that.
    pub hot: bool,
    /// The bytes of each token by id, written to GGUF files. Id 0 is the end of text whatever is given here; ids past
    /// the end of the list are padding. Without a list, ids 1 to 256 are the single bytes.
    pub vocabulary: Option<Vec<Vec<u8>>>,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynthReport {
    /// Length of the file.
    pub bytes: u64,
    /// Number of tensors in it.
    pub tensors: usize,
    /// Number of weights in them.
    pub weights: u64,
}

/// Writes a synthetic model, calling `progress` with the bytes done and in total. The file appears under its name
/// when it is complete; memory stays bounded by a few MiB per thread, whatever the size of the model.
///
/// # Errors
/// Options that no file can satisfy, or what the system said. Nothing is left behind.
pub fn write(
    options: &SynthOptions,
    path: &Path,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<SynthReport, SynthError> {
    options.shape.validate()?;
    if options.hot && options.mix.is_quantised() {
        return Err(SynthError::HotQuantised(options.mix));
    }
    let (layout, header) = match options.container {
        Container::Gguf => {
            let layout = Layout::new(options, gguf::ALIGNMENT)?;
            let header = gguf::header(options, &layout)?;
            (layout, header)
        }
        Container::Safetensors if options.mix.is_quantised() => return Err(SynthError::FloatsOnly(options.mix)),
        Container::Safetensors => {
            let layout = Layout::new(options, 1)?;
            let header = safetensors::header(&layout);
            (layout, header)
        }
        Container::Pth => return Err(SynthError::Container(options.container)),
    };
    stream::write(options, &layout, &header, path, progress)?;
    Ok(SynthReport {
        bytes: header.len() as u64 + layout.data_len,
        tensors: layout.tensors.len(),
        weights: layout.tensors.iter().map(layout::Tensor::weights).sum(),
    })
}

/// The numbers of some rows of a weight before they are rounded to the format of the file, row by row.
pub fn weight(options: &SynthOptions, weight: Weight, rows: Range<u32>) -> Vec<f32> {
    let [_, cols] = weight.shape(&options.shape);
    let source = law::Source::new(options, weight, cols);
    let mut numbers = vec![0.0; rows.len() * cols as usize];
    for (row, out) in rows.zip(numbers.chunks_mut(cols as usize)) {
        source.row(row, out);
    }
    numbers
}
