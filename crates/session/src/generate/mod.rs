//! Generation: a prompt in, text out as it comes, never splitting a character, never giving a part of a stop string.

mod choose;
mod event;
mod options;
mod stop_strings;
mod text;

use crate::grammar::{Grammar, Matcher, rule_out};
use crate::prompt::Read;
use crate::sampling::Sampler;
use crate::{Session, SessionError};
pub(crate) use choose::continuation;
pub use event::{GenerationEvent, OnGeneration};
pub use options::{Ending, GenerateOptions, Generated};
use std::ops::ControlFlow;
pub(crate) use text::Text;
use wgoose_runtime::{Engine, IN_FLIGHT, Outputs, Sequence, Start};

impl Session {
    /// Continues with a prompt, as it is (no end-of-text token is added), and generates until a stop token, a stop
    /// string, `max_tokens`, or `on_event` breaks; it is called for every token, and between the passes of a long
    /// prompt. On a device whose memory holds all weights, tokens are chosen there, by random numbers of its own;
    /// however it ends, the state is that after the prompt and all tokens but the last one chosen. If it breaks within
    /// the prompt, so much of that was read as [`Generated::prompt_tokens`] says.
    ///
    /// # Errors
    /// An empty prompt, options that make no sense, or the device fails.
    pub fn generate(
        &mut self,
        prompt: &[u8],
        options: &GenerateOptions,
        on_event: OnGeneration<'_>,
    ) -> Result<Generated, SessionError> {
        let prompt = self.tokenizer()?.encode(prompt);
        self.generate_after(&prompt, options, on_event)
    }

    /// Does what [`Session::generate`] does, after a prompt of tokens: they need not be those that the tokenizer makes
    /// of their text.
    ///
    /// # Errors
    /// As of [`Session::generate`], and a token that the model lacks.
    pub fn generate_after(
        &mut self,
        prompt: &[u32],
        options: &GenerateOptions,
        on_event: OnGeneration<'_>,
    ) -> Result<Generated, SessionError> {
        let sampler = self.sampler(options)?;
        if prompt.is_empty() {
            return Err(SessionError::EmptyPrompt);
        }
        let on_device = self.engine.can_decode() && options.grammar.is_none();
        let begun = self.read_prompt(prompt, on_device, &mut |done| {
            on_event(GenerationEvent::Prefill { done, of: prompt.len() })
        })?;
        let logits = match begun {
            Read::All(logits) => logits,
            Read::Part(prompt_tokens) => {
                return Ok(Generated { prompt_tokens, tokens: Vec::new(), ending: Ending::Caller });
            }
        };
        let tokenizer = self.tokenizer.as_ref().map_err(|why| SessionError::Vocabulary(why.clone()))?;
        let mut text = Text::new(options);
        let mut broken = false;
        let mut push = |token: u32| {
            let piece = text.push(tokenizer, token);
            broken = piece.is_some_and(|piece| on_event(GenerationEvent::Text(&piece)).is_break());
            if broken || text.has_ended() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let chosen = match logits {
            _ if options.max_tokens == 0 => Ok(()),
            None => choose_on_device(&mut self.engine, Start::Kept, options, &mut push),
            Some(logits) if on_device => choose_on_device(&mut self.engine, Start::Logits(&logits), options, &mut push),
            Some(logits) => {
                let matcher = options.grammar.as_ref().map(Grammar::matcher);
                choose_here(&mut self.engine, logits, sampler, matcher, &mut push)
            }
        };
        let (rest, generated) = text.finish(prompt.len());
        self.note(chosen.is_ok(), generated.read());
        chosen.map_err(|error| self.with_breaking_op(error, prompt))?;
        if !broken {
            let _ = on_event(GenerationEvent::Text(&rest));
        }
        if !generated.read().is_empty() {
            self.keep_state(None)?;
        }
        Ok(generated)
    }

    /// A sampler with these options, if they make sense for the model.
    fn sampler(&self, options: &GenerateOptions) -> Result<Sampler, SessionError> {
        let vocab = self.model.shape().vocab;
        options.sampling.check_tokens(vocab)?;
        options.grammar.as_ref().map_or(Ok(()), |grammar| grammar.check(vocab))?;
        Ok(Sampler::new(options.sampling.clone())?)
    }
}

/// Tokens are chosen where the model runs, ahead of the text.
fn choose_on_device(
    engine: &mut Engine,
    start: Start<'_>,
    options: &GenerateOptions,
    push: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> Result<(), SessionError> {
    let sequence = continuation(0, options, &[], 0, options.max_tokens);
    engine.decode(start, &[sequence], IN_FLIGHT, &mut |ids| ids.iter().flatten().try_for_each(|id| push(*id)))?;
    Ok(())
}

/// Tokens are chosen here, from logits read back.
fn choose_here(
    engine: &mut Engine,
    mut logits: Vec<f32>,
    mut sampler: Sampler,
    mut matcher: Option<Matcher>,
    push: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> Result<(), SessionError> {
    loop {
        if let Some(matcher) = &mut matcher {
            matcher.compute_mask()?;
            matcher.mask().into_iter().for_each(|mask| rule_out(&mut logits, mask));
        }
        let token = sampler.sample(&logits)?;
        if push(token).is_break() {
            return Ok(());
        }
        matcher.as_mut().map_or(Ok(()), |matcher| matcher.push(token))?;
        let read = Sequence { slot: 0, tokens: &[token], outputs: Outputs::Last };
        logits = engine.forward(&[read])?.pop().unwrap_or_default();
    }
}
