//! Embeddings as arrays.

use crate::boundary::outside;
use crate::error::{InputError, of_session};
use crate::interrupt::Interrupt;
use numpy::ndarray::{ArrayD, IxDyn};
use numpy::{IntoPyArray, PyArrayDyn};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::num::NonZeroUsize;
use wgoose_graph::ModelShape;
use wgoose_loader::{EmbeddingHead, Model};
use wgoose_runtime::check_tokens;
use wgoose_session::{EmbedOptions, Level, Pooling, Session};

/// Most texts between two moments at which other threads have their turn.
const TEXTS: usize = 64;

/// The options of an embedding by their names in Python.
pub(crate) fn options(
    model: &Model,
    layer: Option<u32>,
    pooling: Option<&str>,
    head: Option<&str>,
    normalise: bool,
    prefix: Vec<u32>,
    token_budget: Option<NonZeroUsize>,
) -> PyResult<EmbedOptions> {
    let named = |head: &str| head.parse::<EmbeddingHead>().map_err(|e| InputError::new_err(e.to_string()));
    let pooling = match (pooling, head) {
        (None, Some(head)) => Pooling::Head(named(head)?),
        (Some(_), Some(_)) => return Err(InputError::new_err("give a pooling or a head, not both")),
        (None, None) if layer.is_some() => Pooling::Mean,
        (None, None) => EmbedOptions::of(model).pooling,
        (Some("last"), None) => Pooling::Last,
        (Some("mean"), None) => Pooling::Mean,
        (Some("every"), None) => Pooling::Every,
        (Some("state"), None) => Pooling::State,
        (Some(other), None) => {
            return Err(InputError::new_err(format!("pooling '{other}' is none of last, mean, every, state")));
        }
    };
    Ok(EmbedOptions { level: layer.map_or(Level::Final, Level::Layer), pooling, normalise, prefix, token_budget })
}

/// Embeds texts, some at a time; signals are looked at between passes.
pub(crate) fn embed(
    py: Python<'_>,
    session: &Mutex<Session>,
    texts: &[Vec<u32>],
    options: &EmbedOptions,
) -> PyResult<Vec<Vec<f32>>> {
    // Before anything is read: the session counts from 0 each time.
    let vocab = outside(py, || session.lock().model().shape().vocab)?;
    for (i, text) in texts.iter().enumerate() {
        check_tokens(i, text, vocab).map_err(|e| InputError::new_err(e.to_string()))?;
    }
    let mut embeddings = Vec::with_capacity(texts.len());
    for some in texts.chunks(TEXTS) {
        let embedded = outside(py, || {
            let interrupt = Interrupt::default();
            let embedded = session.lock().embed_batch(some, options, &interrupt.token());
            interrupt.or_raise(embedded.map_err(|e| of_session(&e)))
        })??;
        embeddings.extend(embedded);
    }
    Ok(embeddings)
}

/// The sizes of an embedding of a text with so many tokens.
pub(crate) fn dims(options: &EmbedOptions, tokens: usize, shape: &ModelShape) -> Vec<usize> {
    let (width, heads, n) = (shape.width as usize, shape.heads() as usize, shape.head_size as usize);
    match options.pooling {
        Pooling::Last | Pooling::Mean | Pooling::Head(_) => vec![width],
        Pooling::Every => vec![tokens, width],
        Pooling::State => vec![heads, n, n],
    }
}

/// An array that takes over the floats.
pub(crate) fn array<'py>(py: Python<'py>, dims: &[usize], floats: Vec<f32>) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
    let array = ArrayD::from_shape_vec(IxDyn(dims), floats).map_err(|e| InputError::new_err(e.to_string()))?;
    Ok(array.into_pyarray(py))
}
