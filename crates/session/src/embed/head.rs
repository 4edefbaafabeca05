//! Heads of embedding models, computed on the CPU: one row for each text. PyPI's `rwkv-emb` defines them (`model.py`).

use crate::{Session, SessionError};
use rayon::prelude::*;
use std::sync::Arc;
use wgoose_graph::Level;
use wgoose_loader::{EmbeddingHead, EmbeddingHeadTensors};

/// The token behind a text whose hidden state embedding heads read.
pub const END_OF_TEXT: u32 = 65_535;

/// Added to the variance of the layer norm.
const NORM_EPS: f64 = 1e-5;

/// Partial sums of a dot product; every width is a multiple of it.
const LANES: usize = 16;

/// The numbers of a head.
pub(crate) struct HeadWeights {
    fc1: Vec<f32>,
    fc2: Vec<f32>,
    norm_scale: Vec<f32>,
    norm_bias: Vec<f32>,
}

impl HeadWeights {
    fn of(tensors: &EmbeddingHeadTensors<'_>) -> Self {
        let EmbeddingHeadTensors { fc1, fc2, norm_scale, norm_bias } = tensors;
        HeadWeights {
            fc1: fc1.to_f32(),
            fc2: fc2.to_f32(),
            norm_scale: norm_scale.to_f32(),
            norm_bias: norm_bias.to_f32(),
        }
    }

    /// Replaces hidden states `[C]` by their embeddings.
    pub(super) fn embed(&self, rows: &mut [Vec<f32>]) {
        rows.par_iter_mut().for_each(|row| *row = self.embedding(row));
    }

    fn embedding(&self, x: &[f32]) -> Vec<f32> {
        let hidden: Vec<f32> = product(&self.fc1, x).map(|y| y.max(0.0)).collect();
        let sums: Vec<f32> = product(&self.fc2, &hidden).zip(x).map(|(y, x)| y + x).collect();
        let mean_of = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / x.len() as f64;
        let mean = mean_of(&mut sums.iter().map(|y| f64::from(*y)));
        let variance = mean_of(&mut sums.iter().map(|y| (f64::from(*y) - mean).powi(2)));
        let factor = (variance + NORM_EPS).sqrt().recip();
        let affine = self.norm_scale.iter().zip(&self.norm_bias);
        let normal = sums.iter().map(|y| ((f64::from(*y) - mean) * factor) as f32);
        normal.zip(affine).map(|(y, (scale, bias))| y * scale + bias).collect()
    }
}

/// A square matrix times a vector.
fn product<'a>(matrix: &'a [f32], x: &'a [f32]) -> impl Iterator<Item = f32> + 'a {
    matrix.chunks_exact(x.len()).map(|row| {
        let mut sums = [0.0; LANES];
        for (row, x) in row.chunks_exact(LANES).zip(x.chunks_exact(LANES)) {
            for ((sum, w), x) in sums.iter_mut().zip(row).zip(x) {
                *sum += w * x;
            }
        }
        sums.iter().sum()
    })
}

/// Texts that end with [`END_OF_TEXT`], each once. An empty text stays empty, and is refused as such.
pub(super) fn ended<T: AsRef<[u32]>>(texts: &[T]) -> Result<Vec<Vec<u32>>, SessionError> {
    let ended = |(text, tokens): (usize, &T)| match tokens.as_ref() {
        [] => Ok(Vec::new()),
        [tokens @ .., END_OF_TEXT] | tokens => match tokens.iter().position(|token| *token == END_OF_TEXT) {
            Some(position) => Err(SessionError::EndInText { text, position }),
            None => Ok([tokens, &[END_OF_TEXT]].concat()),
        },
    };
    texts.iter().enumerate().map(ended).collect()
}

impl Session {
    /// The numbers of a head of the model, read on first use.
    pub(super) fn head(&mut self, head: EmbeddingHead, level: Level) -> Result<Arc<HeadWeights>, SessionError> {
        if level != Level::Final {
            return Err(SessionError::HeadLevel);
        }
        if let Some(weights) = self.heads.get(&head) {
            return Ok(Arc::clone(weights));
        }
        let Some(tensors) = self.model.embedding_head(head) else {
            let names: Vec<&str> = self.model.embedding_heads().map(EmbeddingHead::name).collect();
            return Err(SessionError::NoEmbeddingHead { wanted: head, names: names.join(", ") });
        };
        let weights = Arc::new(HeadWeights::of(&tensors));
        self.model.check_unchanged()?;
        self.heads.insert(head, Arc::clone(&weights));
        Ok(weights)
    }
}
