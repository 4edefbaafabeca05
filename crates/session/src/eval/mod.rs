//! How well a model predicts a text, and how far it is from another: bits per byte, perplexity, divergence.
//!
//! Every token of the text is predicted: reading begins with end-of-text, and the logits after each token are held against
//! the next one. The state is carried through the whole text, which RWKV can do, or begins anew after a number of tokens.
//! A text is read, run and forgotten a piece at a time, so that memory does not grow with it.
//!
//! ```text
//! text --tokens--> a piece of token ids --model, reference--> rows of logits --rows--> Score, Divergence
//! ```

mod calibration;
mod divergence;
mod error;
mod histogram;
mod json;
mod rows;
mod score;
mod tokens;

pub use calibration::Calibration;
pub use divergence::{Divergence, Stretch};
pub use error::EvalError;
pub use score::Score;

use crate::tokenizer::{END_OF_TEXT, Tokenizer};
use crate::{Session, SessionError};
use std::io::Read;
use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::ControlFlow;
use std::time::Instant;
use tokens::Tokens;
use wgoose_runtime::Outputs;

/// Most bytes of logits of one model at a time, unless one row has more.
const LOGITS: usize = 128 << 20;

/// How to evaluate.
#[derive(Clone, Debug, Default)]
pub struct EvalOptions {
    /// The state begins anew after that many tokens; `None` carries it through the whole text.
    pub context: Option<NonZeroUsize>,
    /// Evaluate that many tokens at most.
    pub limit: Option<NonZeroU64>,
}

/// What a text shows.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// Of the model.
    pub score: Score,
    /// Of the other model, if there is one, and how far the first is from it.
    pub reference: Option<(Score, Divergence)>,
}

/// Reads a text; `progress` is given the model's score so far, and a break ends the reading there. Both sessions begin with their states reset, and end with states
/// of this text. With a reference, both read the same tokens.
///
/// # Errors
/// An empty text, one that cannot be read, models with different vocabularies, a device that fails, logits that are no
/// numbers.
pub fn evaluate(
    model: &mut Session,
    mut reference: Option<&mut Session>,
    text: &mut dyn Read,
    options: &EvalOptions,
    progress: &mut dyn FnMut(&Score) -> ControlFlow<()>,
) -> Result<Evaluation, EvalError> {
    let tokenizer = model.tokenizer()?.clone();
    if let Some(reference) = &reference {
        check_same(model, &tokenizer, reference)?;
    }
    let vocab = model.model().shape().vocab as usize;
    let chunks = [Some(model.engine.chunk()), reference.as_ref().map(|r| r.engine.chunk())];
    let piece = chunks.into_iter().flatten().fold((LOGITS / 4 / vocab).max(1), usize::min);
    let context = options.context.map_or(usize::MAX, usize::from);

    let mut tokens = Tokens::new(&tokenizer, text);
    let mut score = Score::default();
    let mut other = reference.as_ref().map(|_| (Score::default(), Divergence::default()));
    let (mut position, mut last) = (0, END_OF_TEXT);
    loop {
        let left = options.limit.map_or(u64::MAX, u64::from) - score.tokens;
        let next = tokens.next(piece.min(context - position).min(usize::try_from(left).unwrap_or(usize::MAX)))?;
        let Some(newest) = next.last() else { break };
        if position == 0 {
            last = END_OF_TEXT;
            model.reset()?;
            reference.iter_mut().try_for_each(|reference| reference.reset())?;
        }
        // The logits after a token are about the next one.
        let read = [&[last], &next[..next.len() - 1]].concat();
        let logits = timed(model, &read, &mut score)?;
        let bytes = next.iter().filter_map(|id| tokenizer.token(*id)).map(|token| token.len() as u64).sum();
        match (&mut reference, &mut other) {
            (Some(reference), Some((reference_score, divergence))) => {
                let wanted = timed(reference, &read, reference_score)?;
                let rows = rows::compared(&logits, &wanted, vocab, &next, score.tokens)?;
                for (i, row) in rows.iter().enumerate() {
                    divergence.add((position + i) as u64, row);
                }
                reference_score.add(bytes, rows.iter().map(|row| row.reference_nats));
                score.add(bytes, rows.iter().map(|row| row.nats));
            }
            _ => score.add(bytes, rows::nats(&logits, vocab, &next, score.tokens)?.into_iter()),
        }
        last = *newest;
        position = (position + next.len()) % context;
        if progress(&score).is_break() {
            break;
        }
    }
    match score.tokens {
        0 => Err(EvalError::Empty),
        _ => Ok(Evaluation { score, reference: other }),
    }
}

/// The logits after each token; the time counts as the model's.
fn timed(session: &mut Session, tokens: &[u32], score: &mut Score) -> Result<Vec<f32>, SessionError> {
    let start = Instant::now();
    let logits = session.forward(tokens, Outputs::All)?;
    score.seconds += start.elapsed().as_secs_f64();
    Ok(logits)
}

/// Only distributions over the same tokens can be compared.
fn check_same(model: &Session, tokenizer: &Tokenizer, reference: &Session) -> Result<(), EvalError> {
    let [ours, theirs] = [model, reference].map(|session| session.model().shape().vocab);
    if ours != theirs {
        return Err(EvalError::Rows { ours, theirs });
    }
    let other = reference.tokenizer()?;
    match (0..ours).find(|id| tokenizer.token(*id) != other.token(*id)) {
        Some(token) => Err(EvalError::Vocabulary { token }),
        None => Ok(()),
    }
}
