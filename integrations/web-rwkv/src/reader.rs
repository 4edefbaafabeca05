//! A model file as web-rwkv reads one.

use crate::decode;
use crate::error::ReadError;
use crate::names::{self, Place};
use safetensors::{Dtype, SafeTensorError};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use web_rwkv::runtime::loader::{Reader, ReaderTensor};
use wgoose_graph::{Format, ModelShape};
use wgoose_loader::Model;

/// A model file, to be given to web-rwkv in place of `SafeTensors`.
///
/// A clone shares the file and its map.
#[derive(Clone, Debug)]
pub struct ModelReader {
    model: Model,
    places: HashMap<String, Place>,
}

impl ModelReader {
    /// Opens a file, one of the shards of a model, their index, or a folder with one model in it. Reads the headers
    /// only: milliseconds, whatever the size.
    ///
    /// # Errors
    /// [`ReadError::Load`] for what is no model, [`ReadError::NotRun`] for a model that web-rwkv does not run.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        ModelReader::new(Model::open(path)?)
    }

    /// Takes a model that is open already, with [adapters](wgoose_loader::adapter) merged into it, say.
    ///
    /// # Errors
    /// [`ReadError::NotRun`] for a model that web-rwkv does not run.
    pub fn new(model: Model) -> Result<Self, ReadError> {
        runs(model.shape())?;
        let places = names::tensors(model.shape()).into_iter().collect();
        Ok(ModelReader { model, places })
    }

    /// The model, for its sizes, its vocabulary and what its file says of it.
    pub fn model(&self) -> &Model {
        &self.model
    }

    fn place(&self, name: &str) -> Result<&Place, SafeTensorError> {
        self.places.get(name).ok_or_else(|| SafeTensorError::TensorNotFound(name.to_owned()))
    }

    /// The bytes of a tensor, as F16.
    fn bytes(&self, name: &str, place: &Place) -> Result<Cow<'_, [u8]>, ReadError> {
        let view = self.model.tensor(place.weight);
        self.model.will_need(place.weight);
        let rows = match place.row {
            Some(row) => row..row + 1,
            None => 0..view.rows(),
        };
        if let (Format::F16, Some(bytes)) = (view.format(), view.contiguous()) {
            return Ok(Cow::Borrowed(&bytes[rows.start * view.row_bytes()..rows.end * view.row_bytes()]));
        }
        let bytes = decode::rows(&view, rows).map_err(|decode::OutOfRange { row, col, number }| {
            ReadError::OutOfRange { name: name.to_owned(), row: place.row.map_or(row, |_| 0), col, number }
        })?;
        self.model.release(place.weight);
        self.model.check_unchanged()?;
        Ok(Cow::Owned(bytes))
    }
}

/// Whether web-rwkv computes what the model is made of.
fn runs(shape: &ModelShape) -> Result<(), ReadError> {
    let why = match shape {
        ModelShape { deep_embed: Some(_), .. } => "it is RWKV-7a, whose DeepEmbed it does not have",
        ModelShape { output_head: false, .. } => "it has no output head",
        ModelShape { embedding_norm: false, .. } => "it has no norm after the embedding",
        ModelShape { layers: 1, .. } => "it has one layer, and the size of blocks.1.att.v1 is asked for",
        _ => return Ok(()),
    };
    Err(ReadError::NotRun(why))
}

impl Reader for ModelReader {
    fn names(&self) -> Vec<&str> {
        self.places.keys().map(String::as_str).collect()
    }

    fn contains(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    fn shape(&self, name: &str) -> Result<Vec<usize>, SafeTensorError> {
        Ok(self.place(name)?.shape.clone())
    }

    fn tensor(&self, name: &str) -> Result<ReaderTensor<'_>, SafeTensorError> {
        let place = self.place(name)?;
        let bytes = self.bytes(name, place)?;
        Ok((Dtype::F16, place.shape.clone(), bytes))
    }
}
