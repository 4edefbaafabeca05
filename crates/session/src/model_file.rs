//! Model files that are written: the kind of file by its name, and the World vocabulary where a file would have none.

use crate::tokenizer::Tokenizer;
use crate::vocabulary::{ModelVocabularyError, VocabularyChoice};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use wgoose_graph::ModelShape;
use wgoose_loader::adapter::{AdapterSource, MergedAdapter, merge};
use wgoose_loader::convert::{ConvertError, ConvertOptions, Converted, MOST_ROUNDING, convert, kept_mix};
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
    /// The vocabulary that it was to get.
    #[error(transparent)]
    Vocabulary(ModelVocabularyError),
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
    /// The most that rounding may change a weight; `None` for [`MOST_ROUNDING`].
    pub most_rounding: Option<f64>,
    /// Whether tensors that no op reads are left out; otherwise a source that has some is refused.
    pub ignore_unknown: bool,
    /// Where a GGUF file has its vocabulary from if the source has none.
    pub vocabulary: VocabularyChoice,
    /// An adapter that is merged into the source first.
    pub adapter: Option<AdapterSource>,
}

/// A model file that was made of another.
#[derive(Clone, Debug)]
pub struct ConvertedFile {
    /// Its formats; where they were chosen tensor by tensor, the mix that most weights have.
    pub mix: Mix,
    /// Whether they were.
    pub is_chosen: bool,
    /// Bytes of the source.
    pub source_bytes: u64,
    /// The file, and what reading it back has shown.
    pub converted: Converted,
    /// Why a GGUF file has no vocabulary, if so.
    pub without_vocabulary: Option<ModelVocabularyError>,
    /// The adapter that was merged into the source.
    pub adapter: Option<MergedAdapter>,
}

impl ConvertedFile {
    /// What its formats are called: the mix, or `auto`.
    pub fn mix_name(&self) -> &'static str {
        if self.is_chosen { "auto" } else { self.mix.name() }
    }

    /// The file, its source and what a check has shown, for the command line and for Python.
    pub fn json(&self) -> Value {
        let Converted { written, rounding, checked } = self.converted;
        let mut fields = json!({
            "bytes": written.bytes,
            "tensors": written.tensors,
            "weights": written.weights,
            "mix": self.mix_name(),
            "source_bytes": self.source_bytes,
            "rounding": rounding.error,
            "worst": rounding.worst.to_string(),
        });
        if let Some(why) = &self.without_vocabulary {
            fields["without_vocabulary"] = json!(why.to_string());
        }
        if let Some(adapter) = &self.adapter {
            fields["adapter"] = json!(adapter.to_string());
        }
        if let Some(weights) = checked {
            fields["checked"] = json!(weights);
        }
        fields
    }
}

/// Makes a model file of another; see [`convert`] for `progress`.
///
/// # Errors
/// A name with another ending, a source or an adapter that cannot be read, formats that cannot hold it, a file of that
/// name. Nothing is left behind.
pub fn convert_file(
    source: &Path,
    path: &Path,
    options: &ConvertFileOptions,
    progress: &mut Progress<'_>,
) -> Result<ConvertedFile, ModelFileError> {
    container(path)?;
    let opening = OpenOptions { for_conversion: true, ignore_unknown: options.ignore_unknown };
    let mut model = Model::open_with(source, opening)?;
    let adapter = options.adapter.as_ref().map(|adapter| merge(&mut model, adapter)).transpose()?;
    let (options, without_vocabulary) = convert_options(&model, path, options)?;
    let converted = convert(&model, &options, path, progress)?;
    Ok(ConvertedFile {
        mix: options.mix,
        is_chosen: options.chosen.is_some(),
        source_bytes: model.file_len() as u64,
        converted,
        without_vocabulary,
        adapter,
    })
}

/// The file that [`convert_file`] makes of an open model, where nothing is in its way yet.
pub(crate) fn new_file(
    model: &Model,
    path: &Path,
    options: &ConvertFileOptions,
) -> Result<ConvertOptions, ModelFileError> {
    match options.replace || path.symlink_metadata().is_err() {
        true => Ok(convert_options(model, path, options)?.0),
        false => Err(ConvertError::from(WriteError::Exists { path: path.to_owned() }).into()),
    }
}

/// The options, and why the file gets no vocabulary if it does not.
fn convert_options(
    model: &Model,
    path: &Path,
    options: &ConvertFileOptions,
) -> Result<(ConvertOptions, Option<ModelVocabularyError>), ModelFileError> {
    let container = container(path)?;
    let lacks_tokens = container == Container::Gguf && model.vocabulary().is_none();
    let ConvertFileOptions { to, chosen, set, replace, check, most_rounding, vocabulary: choice, .. } = options.clone();
    let mut vocabulary = None;
    let mut without = None;
    if lacks_tokens {
        match choice.tokenizer(model) {
            Ok(tokenizer) => vocabulary = Some(tokenizer.vocabulary().map(<[u8]>::to_vec).collect()),
            Err(why) if choice == VocabularyChoice::Find => without = Some(why),
            Err(why) => return Err(ModelFileError::Vocabulary(why)),
        }
    }
    let options = ConvertOptions {
        container,
        mix: to.unwrap_or_else(|| kept_mix(model)),
        chosen,
        name: model.title(),
        vocabulary,
        set,
        replace,
        check,
        most_rounding: most_rounding.unwrap_or(MOST_ROUNDING),
    };
    Ok((options, without))
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
