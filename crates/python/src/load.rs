//! How a model is opened.

use crate::error::InputError;
use bytesize::ByteSize;
use pyo3::prelude::*;
use std::path::PathBuf;
use wgoose_loader::adapter::AdapterSource;
use wgoose_runtime::Residency;
use wgoose_session::{
    Backend, EmbeddingCacheOptions, PlanChoice, PrefixOptions, Session, SessionBuilder, VocabularyChoice,
};

/// A number of bytes: an int, or text such as '600MiB'.
#[derive(FromPyObject)]
pub(crate) enum Bytes {
    Number(u64),
    Text(String),
}

impl Bytes {
    pub(crate) fn count(&self) -> PyResult<u64> {
        match self {
            Bytes::Number(count) => Ok(*count),
            Bytes::Text(text) => {
                let wrong =
                    |why| InputError::new_err(format!("'{text}' is no number of bytes such as '600MiB': {why}"));
                text.parse::<ByteSize>().map(|size| size.as_u64()).map_err(wrong)
            }
        }
    }
}

/// An adapter: its index, PCI address, UUID, or an unambiguous part of its name.
#[derive(FromPyObject)]
pub(crate) enum Adapter {
    Index(u32),
    Name(String),
}

impl Adapter {
    pub(crate) fn name(self) -> String {
        match self {
            Adapter::Index(index) => index.to_string(),
            Adapter::Name(name) => name,
        }
    }
}

/// An adapter to be merged: its file, or that and the scale.
#[derive(FromPyObject)]
pub(crate) enum Merging {
    Scaled((PathBuf, f32)),
    File(PathBuf),
}

impl Merging {
    /// The adapter, and what a PiSSA began with.
    pub(crate) fn source(adapter: Option<Self>, initial: Option<PathBuf>) -> PyResult<Option<AdapterSource>> {
        match (adapter, initial) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(InputError::new_err("adapter_initial goes with adapter")),
            (Some(Merging::File(path)), initial) => Ok(Some(AdapterSource { path, scale: None, initial })),
            (Some(Merging::Scaled((path, scale))), initial) if scale.is_finite() => {
                Ok(Some(AdapterSource { path, scale: Some(scale), initial }))
            }
            (Some(Merging::Scaled((_, scale))), _) => {
                Err(InputError::new_err(format!("the scale of an adapter is a number, not {scale}")))
            }
        }
    }
}

/// The arguments of `Model.load`.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) plan: Option<PathBuf>,
    pub(crate) foreign_plan: bool,
    pub(crate) ignore_unknown: bool,
    pub(crate) vocab: Option<PathBuf>,
    pub(crate) adapter: Option<AdapterSource>,
    pub(crate) device: Option<Adapter>,
    pub(crate) cpu: bool,
    pub(crate) gpu_budget: Option<Bytes>,
    pub(crate) eager: bool,
    pub(crate) chunk: Option<u32>,
    pub(crate) prefix_cache: Option<Bytes>,
    pub(crate) embedding_cache: Option<Bytes>,
    pub(crate) embedding_store: Option<PathBuf>,
    pub(crate) batch_invariant: bool,
}

impl Options {
    /// What opens a session with these options.
    pub(crate) fn builder(self) -> PyResult<SessionBuilder> {
        let residency = match (self.gpu_budget, self.eager) {
            (Some(_), true) => return Err(InputError::new_err("gpu_budget and eager=True exclude each other")),
            (Some(budget), false) => Residency::Budget(budget.count()?),
            (None, true) => Residency::Eager,
            (None, false) => Residency::Lazy,
        };
        let prefixes = self.prefix_cache.map(|bytes| bytes.count()).transpose()?;
        let prefixes = prefixes.map(|budget| PrefixOptions { budget, ..PrefixOptions::default() });
        let store = self.embedding_store;
        let embeddings = match self.embedding_cache {
            Some(bytes) => Some(EmbeddingCacheOptions { budget: bytes.count()?, store }),
            None if store.is_some() => Some(EmbeddingCacheOptions { store, ..EmbeddingCacheOptions::default() }),
            None => None,
        };
        Ok(Session::builder()
            .backend(if self.cpu { Backend::Cpu } else { Backend::Gpu })
            .device(self.device.map(Adapter::name))
            .plan(PlanChoice::named(self.plan.map(Into::into)))
            .allow_foreign_plan(self.foreign_plan)
            .batch_invariant(self.batch_invariant)
            .ignore_unknown(self.ignore_unknown)
            .vocabulary(VocabularyChoice::named(self.vocab.map(Into::into)))
            .adapter(self.adapter)
            .chunk(self.chunk)
            .residency(residency)
            .prefix_cache(prefixes)
            .embedding_cache(embeddings))
    }
}
