//! One model file made of another: containers and formats change, numbers only as far as the new format rounds them.
//!
//! Matrices may also come in formats that no kernel reads ([`SourceFormat`](crate::blocks::SourceFormat)). Where the
//! format stays, bytes are copied: nothing is quantised twice. llama.cpp demands a tensor that no model uses (a value
//! residual in layer 0): like its own converter, this one writes the adapter of the in-context learning rate there.
//! GGUF to GGUF keeps every metadata key with its type. Embedding heads are copied as they are, into safetensors files
//! only.

mod check;
mod error;
mod recode;
mod rounding;
mod rows;
mod source;

pub use error::ConvertError;
pub use recode::recode;
pub use rounding::Rounding;
pub(crate) use rows::decode_rows;

use crate::gguf::pair::Pair;
use crate::model::Model;
use crate::names::Container;
use crate::placement::Stored;
use crate::view::TensorView;
use crate::writer::{self, ChosenFormats, Mix, Outline, Progress, Setting, WriteReport};
use rounding::Roundings;
use source::Source;
use std::path::Path;
use std::sync::OnceLock;
use wgoose_files::Existing;
use wgoose_graph::{Format, Weight};

/// What to write.
#[derive(Clone, Debug)]
pub struct ConvertOptions {
    /// The kind of file: GGUF or safetensors.
    pub container: Container,
    /// Which format each tensor is stored in; floats only for safetensors.
    pub mix: Mix,
    /// What a GGUF file has in place of the mix's formats.
    pub chosen: Option<ChosenFormats>,
    /// What a GGUF file calls the model where its source has no name for it.
    pub name: String,
    /// The bytes of each token by id, for a GGUF file made of one without a vocabulary. Id 0 is the end of text, but of
    /// 256 bytes; without a list the file says that it has no vocabulary.
    pub vocabulary: Option<Vec<Vec<u8>>>,
    /// What a GGUF file is to say beside its tensors, in place of what the source says.
    pub set: Vec<Setting>,
    /// Whether a file of that name is replaced; otherwise it is refused.
    pub replace: bool,
    /// Whether the file is read back and compared before it gets its name.
    pub check: bool,
    /// The most that rounding may change a weight: root mean square of the error over that of the source.
    pub most_rounding: f64,
}

/// What rounding may change unless more is allowed. Q4_0, the coarsest format, changes random weights by 0.09.
pub const MOST_ROUNDING: f64 = 0.2;

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Converted {
    /// The file.
    pub written: WriteReport,
    /// What rounding has changed.
    pub rounding: Rounding,
    /// Weights that were read back and are, to the bit, the source's in the new format, if that was asked for.
    pub checked: Option<usize>,
}

/// The mix that keeps the precision of a model's matrices: that of the embedding where it is a float, otherwise F16.
pub fn kept_mix(model: &Model) -> Mix {
    match model.stored(Weight::Embedding).0 {
        Stored::Format(Format::F32) => Mix::F32,
        Stored::Format(Format::BF16) => Mix::BF16,
        _ => Mix::F16,
    }
}

/// Writes a model, best opened by [`Model::open_source`], into another file, showing `progress` the bytes done and in total, of
/// the writing and then of the check; a break ends it. The file appears under its name when it is complete; memory stays bounded by a few MiB per thread, whatever the size of the model.
///
/// # Errors
/// A format that cannot hold the model or rounds too much, a file of that name, a source that cannot be read, a copy
/// that differs when read back, or what the system said. Nothing is left behind.
pub fn convert(
    model: &Model,
    options: &ConvertOptions,
    path: &Path,
    progress: &mut Progress<'_>,
) -> Result<Converted, ConvertError> {
    let own = model.vocabulary();
    let kept = model.pairs();
    let vocabulary = own.as_deref().or(options.vocabulary.as_deref());
    let heads: Vec<_> = model.head_tensors().collect();
    let outline = outline(model, options, vocabulary, &kept, &heads);
    let checked = OnceLock::new();
    let roundings = Roundings::default();
    let source = Source {
        model,
        vocabulary,
        checked: options.check.then_some(&checked),
        roundings: &roundings,
        most_rounding: options.most_rounding,
    };
    let existing = if options.replace { Existing::Replace } else { Existing::Keep };
    let written = writer::write(&outline, &source, path, existing, progress)?;
    Ok(Converted { written, rounding: roundings.worst(), checked: checked.into_inner() })
}

/// Bytes of the file that [`convert`] would write.
///
/// # Errors
/// Formats or metadata that no file of that kind can have.
pub fn file_bytes(model: &Model, options: &ConvertOptions) -> Result<u64, ConvertError> {
    let own = model.vocabulary();
    let vocabulary = own.as_deref().or(options.vocabulary.as_deref());
    let heads: Vec<_> = model.head_tensors().collect();
    Ok(writer::bytes(&outline(model, options, vocabulary, &model.pairs(), &heads))?)
}

fn outline<'a>(
    model: &'a Model,
    options: &'a ConvertOptions,
    vocabulary: Option<&'a [Vec<u8>]>,
    kept: &'a [Pair],
    heads: &'a [(String, TensorView<'a>)],
) -> Outline<'a> {
    Outline {
        shape: model.shape(),
        container: options.container,
        mix: options.mix,
        chosen: options.chosen.as_ref(),
        name: &options.name,
        vocabulary,
        kept,
        set: &options.set,
        heads,
    }
}
