//! The logits of a reference for some tokens, kept: many models are compared with them, and the reference runs once.

use super::tokens::Tokens;
use super::{Divergence, EvalError, LOGITS, rows};
use crate::sampling::{Sampler, SamplerOptions};
use crate::tokenizer::END_OF_TEXT;
use crate::{Session, SessionError};
use std::io::Read;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use wgoose_runtime::Outputs;

/// Tokens, and the logits of a reference before each.
pub struct Calibration {
    tokens: Vec<u32>,
    /// `[T, V]`, row major.
    logits: Vec<f32>,
}

impl Calibration {
    /// The first tokens of a text, `limit` at most. Memory: 4 bytes for each token and entry of the vocabulary.
    ///
    /// # Errors
    /// An empty text, one that cannot be read, a device that fails.
    pub fn of_text(reference: &mut Session, text: &mut dyn Read, limit: NonZeroUsize) -> Result<Self, EvalError> {
        let tokenizer = reference.tokenizer()?.clone();
        let tokens = Tokens::new(&tokenizer, text).next(limit.get())?;
        Calibration::of_tokens(reference, tokens)
    }

    /// So many tokens that the reference writes itself, drawn from its distribution after end-of-text: the mean divergence on
    /// them estimates that of the two models' texts. The same model on the same device writes the same. `on_token` is called
    /// before each; a break ends the text.
    ///
    /// # Errors
    /// A device that fails, logits that are no numbers.
    pub fn drawn(
        reference: &mut Session,
        count: NonZeroUsize,
        on_token: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Self, EvalError> {
        let options = SamplerOptions { temperature: 1.0, top_p: 1.0, seed: 1, ..SamplerOptions::default() };
        let mut sampler = Sampler::new(options).map_err(SessionError::from)?;
        reference.reset()?;
        let (mut tokens, mut last) = (Vec::new(), END_OF_TEXT);
        while tokens.len() < count.get() && on_token().is_continue() {
            let logits = reference.decode(last)?;
            last = sampler.sample(&logits).map_err(SessionError::from)?;
            tokens.push(last);
        }
        Calibration::of_tokens(reference, tokens)
    }

    fn of_tokens(reference: &mut Session, tokens: Vec<u32>) -> Result<Self, EvalError> {
        if tokens.is_empty() {
            return Err(EvalError::Empty);
        }
        let mut logits = Vec::new();
        each(reference, &tokens, &mut |_, rows| {
            logits.extend(rows);
            Ok(())
        })?;
        Ok(Calibration { tokens, logits })
    }

    /// The tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// How far a model is from the reference on these tokens. It begins with its state reset, and ends with one of this text.
    ///
    /// # Errors
    /// A model with another vocabulary, a device that fails, logits that are no numbers.
    pub fn divergence(&self, model: &mut Session) -> Result<Divergence, EvalError> {
        let vocab = self.logits.len() / self.tokens.len();
        let ours = model.model().shape().vocab;
        if ours as usize != vocab {
            return Err(EvalError::Rows { ours, theirs: vocab as u32 });
        }
        let mut divergence = Divergence::default();
        each(model, &self.tokens, &mut |first, logits| {
            let count = logits.len() / vocab;
            let wanted = &self.logits[first * vocab..(first + count) * vocab];
            let followed = &self.tokens[first..first + count];
            for (i, row) in rows::compared(&logits, wanted, vocab, followed, first as u64)?.iter().enumerate() {
                divergence.add((first + i) as u64, row);
            }
            Ok(())
        })?;
        Ok(divergence)
    }
}

/// The logits before each token, a piece at a time, with the index of its first token.
fn each(
    session: &mut Session,
    tokens: &[u32],
    on_rows: &mut dyn FnMut(usize, Vec<f32>) -> Result<(), EvalError>,
) -> Result<(), EvalError> {
    let vocab = session.model().shape().vocab as usize;
    let piece = session.engine.chunk().min((LOGITS / 4 / vocab).max(1));
    session.reset()?;
    // The logits after a token are about the next one.
    let read = [&[END_OF_TEXT], &tokens[..tokens.len() - 1]].concat();
    for (i, piece_tokens) in read.chunks(piece).enumerate() {
        on_rows(i * piece, session.forward(piece_tokens, Outputs::All)?)?;
    }
    Ok(())
}
