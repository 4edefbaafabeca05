//! Embeddings as arrays.

use crate::boundary::outside;
use crate::error::{InputError, of_session};
use numpy::ndarray::{ArrayD, IxDyn};
use numpy::{IntoPyArray, PyArrayDyn};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::num::NonZeroUsize;
use wgoose_graph::ModelShape;
use wgoose_runtime::check_tokens;
use wgoose_session::{EmbedOptions, Level, Pooling, Session};

/// Most tokens, and most texts, between two moments at which signals are looked at and other threads have their turn.
const TOKENS: usize = 2048;
const TEXTS: usize = 64;

/// The options of an embedding by their names in Python.
pub(crate) fn options(
    layer: Option<u32>,
    pooling: &str,
    normalise: bool,
    prefix: Vec<u32>,
    token_budget: Option<NonZeroUsize>,
) -> PyResult<EmbedOptions> {
    let pooling = match pooling {
        "last" => Pooling::Last,
        "mean" => Pooling::Mean,
        "every" => Pooling::Every,
        "state" => Pooling::State,
        other => return Err(InputError::new_err(format!("pooling '{other}' is none of last, mean, every, state"))),
    };
    Ok(EmbedOptions { level: layer.map_or(Level::Final, Level::Layer), pooling, normalise, prefix, token_budget })
}

/// Embeds texts, some at a time.
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
    while embeddings.len() < texts.len() {
        py.check_signals()?;
        let rest = &texts[embeddings.len()..];
        let mut tokens = 0;
        let fits = |text: &&Vec<u32>| {
            tokens += text.len();
            tokens <= TOKENS
        };
        let some = rest.iter().take(TEXTS).take_while(fits).count().max(1);
        let embedded = outside(py, || session.lock().embed_batch(&rest[..some], options))?;
        embeddings.extend(embedded.map_err(|e| of_session(&e))?);
    }
    py.check_signals()?;
    Ok(embeddings)
}

/// The sizes of an embedding of a text with so many tokens.
pub(crate) fn dims(options: &EmbedOptions, tokens: usize, shape: &ModelShape) -> Vec<usize> {
    let (width, heads, n) = (shape.width as usize, shape.heads() as usize, shape.head_size as usize);
    match options.pooling {
        Pooling::Last | Pooling::Mean => vec![width],
        Pooling::Every => vec![tokens, width],
        Pooling::State => vec![heads, n, n],
    }
}

/// An array that takes over the floats.
pub(crate) fn array<'py>(py: Python<'py>, dims: &[usize], floats: Vec<f32>) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
    let array = ArrayD::from_shape_vec(IxDyn(dims), floats).map_err(|e| InputError::new_err(e.to_string()))?;
    Ok(array.into_pyarray(py))
}
