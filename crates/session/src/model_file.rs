//! Model files that are written: the kind of file by its name, and the World vocabulary where a file would have none.

use crate::tokenizer::Tokenizer;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use wgoose_graph::ModelShape;
use wgoose_loader::convert::{ConvertError, ConvertOptions, Converted, convert, kept_mix};
use wgoose_loader::synth::{SynthError, SynthOptions, write};
use wgoose_loader::writer::{ChosenFormats, Mix, Progress, Setting, WriteError, WriteReport};
use wgoose_loader::{Container, LoadError, Model, OpenOptions};

/// Why no model file was written.
#[derive(Debug, thiserror::Error)]
pub enum ModelFileError {
    /// The name does not say what to write.
    #[error("{}: expected a name that ends in .gguf, .st or .safetensors", .0.display())]
    Ending(PathBuf),
    /// The model that is converted.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Its conversion.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// The synthetic model.
    #[error(transparent)]
    Synth(#[from] SynthError),
}

/// How a model file is made of another.
#[derive(Clone, Debug, Default)]
pub struct ConvertFileOptions {
    /// The formats; `None` keeps the precision of the source, or takes F16 if it is quantised.
    pub to: Option<Mix>,
    /// Formats that [`allocate`](crate::bit_allocation::allocate) chose, in place of the mix's.
    pub chosen: Option<ChosenFormats>,
    /// Metadata of a GGUF file, beside what the source has or in its place.
    pub set: Vec<Setting>,
    /// Whether a file of that name is replaced; otherwise it is refused.
    pub replace: bool,
    /// Whether the file is read back and compared before it gets its name.
    pub check: bool,
    /// Whether tensors that no op reads are left out; otherwise a source that has some is refused.
    pub ignore_unknown: bool,
}

/// A model file that was made of another.
#[derive(Clone, Copy, Debug)]
pub struct ConvertedFile {
    /// Its formats; where they were chosen tensor by tensor, the mix that most weights have.
    pub mix: Mix,
    /// Whether they were.
    pub is_chosen: bool,
    /// Bytes of the source.
    pub source_bytes: u64,
    /// The file, and what reading it back has shown.
    pub converted: Converted,
}

impl ConvertedFile {
    /// What its formats are called: the mix, or `auto`.
    pub fn mix_name(&self) -> &'static str {
        if self.is_chosen { "auto" } else { self.mix.name() }
    }

    /// The file, its source and what a check has shown, for the command line and for Python.
    pub fn json(&self) -> Value {
        let Converted { written, checked } = self.converted;
        let mut fields = json!({
            "bytes": written.bytes,
            "tensors": written.tensors,
            "weights": written.weights,
            "mix": self.mix_name(),
            "source_bytes": self.source_bytes,
        });
        if let Some(checked) = checked {
            fields["checked"] = json!(checked.weights);
            fields["rounding"] = json!(checked.rounding);
            fields["worst"] = json!(checked.worst.to_string());
        }
        fields
    }
}

/// Makes a model file of another; see [`convert`] for `progress`.
///
/// # Errors
/// A name with another ending, a source that cannot be read, formats that cannot hold it, a file of that name. Nothing is left
/// behind.
pub fn convert_file(
    source: &Path,
    path: &Path,
    options: &ConvertFileOptions,
    progress: &mut Progress<'_>,
) -> Result<ConvertedFile, ModelFileError> {
    container(path)?;
    let opening = OpenOptions { for_conversion: true, ignore_unknown: options.ignore_unknown };
    let model = Model::open_with(source, opening)?;
    let options = convert_options(&model, source, path, options)?;
    let converted = convert(&model, &options, path, progress)?;
    let (mix, is_chosen) = (options.mix, options.chosen.is_some());
    Ok(ConvertedFile { mix, is_chosen, source_bytes: model.file_len() as u64, converted })
}

/// The file that [`convert_file`] makes of an open model, where nothing is in its way yet.
pub(crate) fn new_file(
    model: &Model,
    source: &Path,
    path: &Path,
    options: &ConvertFileOptions,
) -> Result<ConvertOptions, ModelFileError> {
    match options.replace || path.symlink_metadata().is_err() {
        true => convert_options(model, source, path, options),
        false => Err(ConvertError::from(WriteError::Exists { path: path.to_owned() }).into()),
    }
}

fn convert_options(
    model: &Model,
    source: &Path,
    path: &Path,
    options: &ConvertFileOptions,
) -> Result<ConvertOptions, ModelFileError> {
    let container = container(path)?;
    let lacks_tokens = container == Container::Gguf && model.vocabulary().is_none();
    let ConvertFileOptions { to, chosen, set, replace, check, .. } = options.clone();
    Ok(ConvertOptions {
        container,
        mix: to.unwrap_or_else(|| kept_mix(model)),
        chosen,
        name: source.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default(),
        vocabulary: if lacks_tokens { world_vocabulary(model.shape().vocab) } else { None },
        set,
        replace,
        check,
    })
}

/// What a synthetic model file is like; see [`SynthOptions`].
#[derive(Clone, Copy, Debug)]
pub struct SynthFileOptions {
    /// The model's sizes.
    pub shape: ModelShape,
    /// The formats.
    pub mix: Mix,
    /// Chooses the weights.
    pub seed: u64,
    /// Whether relu^2 comes near the largest f16.
    pub hot: bool,
    /// Share of zeros among the squares that ffn.value is multiplied with.
    pub ffn_zeros: Option<f32>,
}

/// Writes a synthetic model; a file of that name is replaced.
///
/// # Errors
/// A name with another ending, sizes or options that no file can satisfy, or what the system said. Nothing is left behind.
pub fn synth_file(
    path: &Path,
    options: &SynthFileOptions,
    progress: &mut Progress<'_>,
) -> Result<WriteReport, ModelFileError> {
    let SynthFileOptions { shape, mix, seed, hot, ffn_zeros } = *options;
    let (container, vocabulary) = (container(path)?, world_vocabulary(shape.vocab));
    Ok(write(&SynthOptions { shape, seed, container, mix, hot, ffn_zeros, vocabulary }, path, progress)?)
}

/// The kind of file that a name asks for.
fn container(path: &Path) -> Result<Container, ModelFileError> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("gguf") => Ok(Container::Gguf),
        Some("st" | "safetensors") => Ok(Container::Safetensors),
        _ => Err(ModelFileError::Ending(path.to_owned())),
    }
}

/// As much of the World vocabulary as there are rows, if that covers the single bytes.
fn world_vocabulary(rows: u32) -> Option<Vec<Vec<u8>>> {
    let world = Tokenizer::world();
    let tokenizer = world.truncated((rows as usize).min(world.len())).ok()?;
    Some(tokenizer.vocabulary().map(<[u8]>::to_vec).collect())
}
