//! The heads of embedding models: small networks that turn the hidden state at the end of a text into its embedding,
//! one for each task.
//!
//! Names and sizes follow `MultiTaskHead` and `NonlinearHead` in EmbeddingRWKV (PyPI `rwkv-emb`, `model.py`). Whatever
//! the names of the other tensors begin with, names of heads begin with `head.`.

use crate::contents::Directory;
use crate::error::LoadError;
use crate::model::Model;
use crate::placement::{self, Placed, Stored};
use crate::view::TensorView;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use wgoose_graph::ModelShape;

/// A head of an embedding model, by the task that it was trained for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EmbeddingHead {
    /// Classification.
    Cls,
    /// Semantic similarity of texts.
    Sts,
    /// Retrieval: texts that answer a query.
    Retr,
}

/// A name that no head has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is none of the embedding heads cls, sts, retr")]
pub struct UnknownEmbeddingHead(String);

impl EmbeddingHead {
    /// All of them.
    pub const ALL: [EmbeddingHead; 3] = [EmbeddingHead::Cls, EmbeddingHead::Sts, EmbeddingHead::Retr];

    /// Its name: `cls`, `sts` or `retr`.
    pub const fn name(self) -> &'static str {
        match self {
            EmbeddingHead::Cls => "cls",
            EmbeddingHead::Sts => "sts",
            EmbeddingHead::Retr => "retr",
        }
    }

    /// The names of its tensors in a file, in the order of [`EmbeddingHeadTensors`].
    pub(crate) fn tensors(self) -> [String; 4] {
        ["fc1.weight", "fc2.weight", "norm.weight", "norm.bias"].map(|part| format!("head.{self}_head.{part}"))
    }
}

impl fmt::Display for EmbeddingHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for EmbeddingHead {
    type Err = UnknownEmbeddingHead;

    fn from_str(name: &str) -> Result<Self, UnknownEmbeddingHead> {
        let named = EmbeddingHead::ALL.into_iter().find(|head| head.name() == name);
        named.ok_or_else(|| UnknownEmbeddingHead(name.to_owned()))
    }
}

/// The tensors of a head. The embedding of a hidden state x is the layer norm, with epsilon 1e-5, of
/// x + fc2 relu(fc1 x).
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingHeadTensors<'a> {
    /// `[C, C]`.
    pub fc1: TensorView<'a>,
    /// `[C, C]`.
    pub fc2: TensorView<'a>,
    /// `[1, C]`.
    pub norm_scale: TensorView<'a>,
    /// `[1, C]`.
    pub norm_bias: TensorView<'a>,
}

impl Model {
    /// The embedding heads that the model has; most models have none.
    pub fn embedding_heads(&self) -> impl Iterator<Item = EmbeddingHead> {
        self.heads.keys().copied()
    }

    /// The tensors of an embedding head, if the model has it.
    pub fn embedding_head(&self, head: EmbeddingHead) -> Option<EmbeddingHeadTensors<'_>> {
        let mut views = self.heads.get(&head)?.iter().filter_map(|placed| self.float_view(placed));
        Some(EmbeddingHeadTensors {
            fc1: views.next()?,
            fc2: views.next()?,
            norm_scale: views.next()?,
            norm_bias: views.next()?,
        })
    }

    /// The tensors of all embedding heads, by name.
    pub(crate) fn head_tensors(&self) -> impl Iterator<Item = (String, TensorView<'_>)> {
        let named = self.heads.iter().flat_map(|(head, placed)| head.tensors().into_iter().zip(placed));
        named.filter_map(|(name, placed)| Some((name, self.float_view(placed)?)))
    }

    fn float_view<'a>(&'a self, placed: &'a Placed) -> Option<TensorView<'a>> {
        match placed.stored {
            Stored::Format(format) => Some(self.view(placed, format)),
            Stored::Source(_) => None,
        }
    }
}

/// Where the tensors of each head lie.
pub(crate) type PlacedHeads = BTreeMap<EmbeddingHead, [Placed; 4]>;

/// The heads of which a file has any tensor.
pub(crate) fn heads_in(directory: &Directory) -> impl Iterator<Item = EmbeddingHead> {
    let has_any = |head: &EmbeddingHead| head.tensors().iter().any(|name| directory.get(name).is_some());
    EmbeddingHead::ALL.into_iter().filter(has_any)
}

/// Whether a file holds a reranker of EmbeddingRWKV (`RWKVReRanker` there).
pub(crate) fn is_reranker(directory: &Directory) -> bool {
    let mut names = directory.names().peekable();
    names.peek().is_some() && names.all(|name| name.starts_with("reranker."))
}

/// Finds the tensors of all heads of a file.
pub(crate) fn place(directory: &Directory, shape: &ModelShape) -> Result<PlacedHeads, LoadError> {
    let width = shape.width as usize;
    let placed = |head: EmbeddingHead| {
        let [fc1, fc2, norm_scale, norm_bias] = head.tensors();
        let place = |name: String, rows: usize| match directory.get(&name) {
            Some(tensor) => placement::floats(&name, tensor, rows, width),
            None => Err(LoadError::MissingHeadTensor { tensor: name, head }),
        };
        Ok((head, [place(fc1, width)?, place(fc2, width)?, place(norm_scale, 1)?, place(norm_bias, 1)?]))
    };
    heads_in(directory).map(placed).collect()
}
