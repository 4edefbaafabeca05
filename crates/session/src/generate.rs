//! Generation: a prompt in, text out as it comes, never splitting a character.

use crate::sampling::{Sampler, SamplerOptions};
use crate::tokenizer::{Tokenizer, Utf8Stream};
use crate::{Session, SessionError};
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use wgoose_runtime::{Continuation, Engine, IN_FLIGHT, Outputs, Sampling, Sequence, Start};

/// How to generate.
#[derive(Clone, Debug)]
pub struct GenerateOptions {
    /// How tokens are chosen.
    pub sampling: SamplerOptions,
    /// Most tokens to generate.
    pub max_tokens: usize,
}

/// What was generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens generated; a final end-of-text token (0) is not among them. The last one has not been read: whoever goes on
    /// with the session begins with it.
    pub tokens: Vec<u32>,
}

/// The token that ends a text.
const END_OF_TEXT: u32 = 0;

impl Session {
    /// Continues with a prompt and generates until end-of-text, `max_tokens`, or `on_text` breaks. On a device whose
    /// memory holds all weights, tokens are chosen there, by random numbers of its own; however it ends, the state is that
    /// after the prompt and all tokens but the last one.
    ///
    /// # Errors
    /// An empty prompt, options that make no sense, or the device fails.
    pub fn generate(
        &mut self,
        prompt: &[u8],
        options: &GenerateOptions,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generated, SessionError> {
        let sampler = Sampler::new(options.sampling)?;
        let prompt = self.tokenizer()?.encode(prompt);
        if prompt.is_empty() {
            return Err(SessionError::EmptyPrompt);
        }
        let logits = self.prefill(&prompt)?;
        let tokenizer = self.tokenizer.as_ref().map_err(|why| SessionError::Vocabulary(why.clone()))?;
        let mut text = Text { tokenizer, bytes: Utf8Stream::new(), tokens: Vec::new(), on_text, broken: false };
        if options.max_tokens > 0 {
            match self.engine.can_decode() {
                true => choose_on_device(&mut self.engine, &logits, options, &mut text)?,
                false => choose_here(&mut self.engine, logits, sampler, options, &mut text)?,
            }
        }
        Ok(Generated { prompt_tokens: prompt.len(), tokens: text.finish() })
    }
}

/// Text as it comes.
struct Text<'a> {
    tokenizer: &'a Tokenizer,
    bytes: Utf8Stream,
    tokens: Vec<u32>,
    on_text: &'a mut dyn FnMut(&str) -> ControlFlow<()>,
    broken: bool,
}

impl Text<'_> {
    /// Appends a token; breaks where the text ends.
    fn push(&mut self, token: u32) -> ControlFlow<()> {
        if token == END_OF_TEXT {
            return ControlFlow::Break(());
        }
        self.tokens.push(token);
        // Rows beyond the vocabulary have no text.
        let piece = self.bytes.push(self.tokenizer.token(token).unwrap_or_default());
        let flow = (self.on_text)(&piece);
        self.broken = flow.is_break();
        flow
    }

    /// The tokens, once all text was given, what is left of a character included.
    fn finish(mut self) -> Vec<u32> {
        if !self.broken {
            let _ = (self.on_text)(&self.bytes.finish());
        }
        self.tokens
    }
}

/// Tokens are chosen where the model runs, ahead of the text.
fn choose_on_device(
    engine: &mut Engine,
    logits: &[f32],
    options: &GenerateOptions,
    text: &mut Text<'_>,
) -> Result<(), SessionError> {
    let SamplerOptions { temperature, top_p, top_k, seed } = options.sampling;
    let top_k = top_k.and_then(|k| NonZeroU32::try_from(k).ok());
    let continuation = Continuation {
        slot: 0,
        sampling: Sampling { temperature, top_p, top_k, seed, ..Sampling::default() },
        stops: &[END_OF_TEXT],
        max_tokens: u32::try_from(options.max_tokens).unwrap_or(u32::MAX),
    };
    engine.decode(Start::Logits(logits), &[continuation], IN_FLIGHT, &mut |ids| {
        ids.iter().flatten().try_for_each(|id| text.push(*id))
    })?;
    Ok(())
}

/// Tokens are chosen here, from logits read back.
fn choose_here(
    engine: &mut Engine,
    mut logits: Vec<f32>,
    mut sampler: Sampler,
    options: &GenerateOptions,
    text: &mut Text<'_>,
) -> Result<(), SessionError> {
    loop {
        let token = sampler.sample(&logits)?;
        if text.push(token).is_break() || text.tokens.len() == options.max_tokens {
            return Ok(());
        }
        let read = Sequence { slot: 0, tokens: &[token], outputs: Outputs::Last };
        logits = engine.forward(&[read])?.pop().unwrap_or_default();
    }
}
