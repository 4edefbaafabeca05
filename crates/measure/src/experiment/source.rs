//! Where an experiment's model is from.

use serde::Deserialize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wgoose_graph::ModelShape;
use wgoose_loader::synth::{SynthError, SynthOptions, write};
use wgoose_loader::writer::Mix;
use wgoose_loader::{Container, LoadError, Model};

/// A model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Source {
    /// A file; its path begins at the experiment's folder.
    File(PathBuf),
    /// One of random weights, by its sizes.
    Synthetic {
        /// A published size, such as `2.9B`, instead of sizes of its own.
        preset: Option<String>,
        /// Layers.
        layers: Option<u32>,
        /// Width of the residual stream.
        width: Option<u32>,
        /// Rows of the embedding and of the head; 65,536 if it is not said.
        vocab: Option<u32>,
        /// Share of zeros among the squares that `ffn.value` is multiplied with.
        zeros: Option<f32>,
        /// Formats, as `wgoose dev synth --mix` has them.
        mix: String,
    },
}

/// Why there is no such model.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A mix that is none.
    #[error("there is no mix of formats '{0}': F32, F16, BF16, Q8_0, Q4_0, Q4_K_M, Q5_K_M or Q6_K")]
    Mix(String),
    /// Neither a published size nor layers and width, or both.
    #[error("a synthetic model has a preset of {}, or layers and width", names())]
    Sizes,
    /// Another mix of a model that has one already.
    #[error("'{}' is a file: another mix of it is another file, made by wgoose convert", .0.display())]
    MixOfFile(PathBuf),
    /// It cannot be written.
    #[error("a synthetic model: {0}")]
    Synth(#[from] SynthError),
    /// It cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
}

fn names() -> String {
    ModelShape::PRESETS.map(|(name, _)| name).join(", ")
}

impl Source {
    /// The same model in other formats.
    ///
    /// # Errors
    /// It is a file.
    pub(super) fn in_mix(&self, mix: &str) -> Result<Source, SourceError> {
        let mut other = self.clone();
        match &mut other {
            Source::File(path) => return Err(SourceError::MixOfFile(path.clone())),
            Source::Synthetic { mix: own, .. } => mix.clone_into(own),
        }
        Ok(other)
    }

    /// The model. A synthetic one is written to `models`, once; the path of a file begins at `folder`.
    ///
    /// # Errors
    /// There is none, or it cannot be written or read.
    pub fn open(&self, models: &Path, folder: &Path, progress: &dyn Fn(u64, u64)) -> Result<Arc<Model>, SourceError> {
        let path = match self {
            Source::File(path) => folder.join(path),
            Source::Synthetic { zeros, .. } => {
                let (shape, mix) = self.synthetic()?;
                let options = SynthOptions {
                    shape,
                    seed: 0,
                    container: Container::Gguf,
                    mix,
                    hot: false,
                    ffn_zeros: *zeros,
                    vocabulary: None,
                };
                let content = blake3::hash(format!("{shape:?} {zeros:?}").as_bytes()).to_hex();
                let ModelShape { layers, width, .. } = shape;
                let path = models.join(format!("synthetic-{layers}x{width}-{mix}-{}.gguf", &content[..8]));
                if !path.exists() {
                    std::fs::create_dir_all(models)
                        .map_err(|source| LoadError::Io { path: models.to_owned(), source })?;
                    write(&options, &path, &mut |done, total| {
                        progress(done, total);
                        ControlFlow::Continue(())
                    })?;
                }
                path
            }
        };
        Ok(Arc::new(Model::open(&path)?))
    }

    /// The sizes and formats of a synthetic one.
    fn synthetic(&self) -> Result<(ModelShape, Mix), SourceError> {
        let Source::Synthetic { preset, layers, width, vocab, mix, .. } = self else { return Err(SourceError::Sizes) };
        let formats = mix.parse().map_err(|_| SourceError::Mix(mix.clone()))?;
        let shape = match (preset, layers, width) {
            (Some(name), None, None) => ModelShape::preset(name).ok_or(SourceError::Sizes)?,
            (None, Some(layers), Some(width)) => ModelShape::small(*layers, *width),
            _ => return Err(SourceError::Sizes),
        };
        Ok((ModelShape { vocab: vocab.unwrap_or(shape.vocab), ..shape }, formats))
    }
}
