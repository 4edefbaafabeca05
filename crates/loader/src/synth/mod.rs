//! Synthetic RWKV-7 models: files of any size, container and mix of formats that behave like a model.
//!
//! The weights are drawn so that activations stay in range over thousands of tokens, logits spread as a trained
//! model's do, and no tensor can be lost or swapped without changing them (`law.rs` says how each is drawn). The same
//! options give the same bytes on every machine, whatever the number of threads.
//!
//! ```text
//! options -> writer: the file
//! law, noise: the numbers of any row on its own --^
//! ```

mod error;
mod law;
mod noise;
mod options;

pub use crate::writer::{Mix, UnknownMix, WriteReport as SynthReport, unwatched};
pub use error::SynthError;
pub use options::SynthOptions;

use crate::blocks;
use crate::writer::{self, Outline, Progress, Rows, Tensor};
use law::Source;
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use wgoose_files::Existing;
use wgoose_graph::Weight;

/// Writes a synthetic model, showing `progress` the bytes done and in total; a break ends it. The file appears under its name
/// when it is complete; memory stays bounded by a few MiB per thread, whatever the size of the model.
///
/// # Errors
/// Options that no file can satisfy, or what the system said. Nothing is left behind.
pub fn write(options: &SynthOptions, path: &Path, progress: &mut Progress<'_>) -> Result<SynthReport, SynthError> {
    if options.hot && options.mix.is_quantised() {
        return Err(SynthError::HotQuantised(options.mix));
    }
    if let Some(zeros) = options.ffn_zeros.filter(|zeros| !(0.5..=0.99).contains(zeros)) {
        return Err(SynthError::Zeros(zeros));
    }
    let vocabulary = match &options.vocabulary {
        Some(vocabulary) => Cow::Borrowed(vocabulary),
        None => Cow::Owned(single_bytes(options.shape.vocab)),
    };
    let outline = Outline {
        shape: &options.shape,
        container: options.container,
        mix: options.mix,
        chosen: None,
        name: &format!("synthetic RWKV-7, seed {}", options.seed),
        vocabulary: Some(&vocabulary),
        kept: &[],
        set: &[],
        heads: &[],
    };
    writer::write(&outline, options, path, Existing::Replace, progress)
}

/// The vocabulary of the single bytes: all of 256 tokens; otherwise behind the end of text, as far as there are rows.
fn single_bytes(rows: u32) -> Vec<Vec<u8>> {
    let bytes = (0..=u8::MAX).map(|byte| vec![byte]);
    match rows {
        256 => bytes.collect(),
        _ => std::iter::once(Vec::new()).chain(bytes).take(rows as usize).collect(),
    }
}

impl Rows for SynthOptions {
    type Error = SynthError;

    fn fill(
        &self,
        tensor: &Tensor,
        rows: Range<u32>,
        numbers: &mut Vec<f32>,
        out: &mut [u8],
    ) -> Result<(), SynthError> {
        // Synthetic models have no embedding heads.
        let Some(weight) = tensor.weight else { return Ok(()) };
        let source = Source::new(self, weight, tensor.cols);
        let cols = tensor.cols as usize;
        numbers.resize(rows.len() * cols, 0.0);
        for (row, out) in rows.zip(numbers.chunks_mut(cols)) {
            source.row(tensor.first_row + row, out);
        }
        blocks::encode(tensor.format, numbers, out);
        Ok(())
    }
}

/// The numbers of some rows of a weight before they are rounded to the format of the file, row by row.
pub fn weight(options: &SynthOptions, weight: Weight, rows: Range<u32>) -> Vec<f32> {
    let [_, cols] = weight.shape(&options.shape);
    let source = Source::new(options, weight, cols);
    let mut numbers = vec![0.0; rows.len() * cols as usize];
    for (row, out) in rows.zip(numbers.chunks_mut(cols as usize)) {
        source.row(row, out);
    }
    numbers
}
