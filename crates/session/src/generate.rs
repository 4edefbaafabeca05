//! Generation: a prompt in, text out as it comes, never splitting a character.

use crate::sampling::{Sampler, SamplerOptions};
use crate::tokenizer::Utf8Stream;
use crate::{Session, SessionError};
use std::ops::ControlFlow;

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

impl Session {
    /// Continues with a prompt and generates until end-of-text, `max_tokens`, or `on_text` breaks.
    ///
    /// # Errors
    /// An empty prompt, options that make no sense, or the device fails.
    pub fn generate(
        &mut self,
        prompt: &[u8],
        options: &GenerateOptions,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generated, SessionError> {
        let mut sampler = Sampler::new(options.sampling)?;
        let prompt = self.tokenizer()?.encode(prompt);
        if prompt.is_empty() {
            return Err(SessionError::EmptyPrompt);
        }
        let mut tokens = Vec::new();
        let mut text = Utf8Stream::new();
        let mut logits = self.prefill(&prompt)?;
        while tokens.len() < options.max_tokens {
            let token = sampler.sample(&logits)?;
            if token == 0 {
                break;
            }
            tokens.push(token);
            // Rows beyond the vocabulary have no text.
            let piece = text.push(self.tokenizer()?.token(token).unwrap_or_default());
            if on_text(&piece).is_break() {
                return Ok(Generated { prompt_tokens: prompt.len(), tokens });
            }
            if tokens.len() < options.max_tokens {
                logits = self.decode(token)?;
            }
        }
        let _ = on_text(&text.finish());
        Ok(Generated { prompt_tokens: prompt.len(), tokens })
    }
}
