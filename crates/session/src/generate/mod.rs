//! Generation: a prompt in, text out as it comes, never splitting a character, never giving a part of a stop string.

mod choose;
mod event;
mod options;
mod stop_strings;
mod text;

use crate::grammar::{Grammar, Matcher, rule_out};
use crate::prompt::Read;
use crate::sampling::{Counts, Sampler, TokenLogprobs};
use crate::{Session, SessionError};
pub(crate) use choose::continuation;
pub use event::{GenerationEvent, OnGeneration};
pub use options::{Ending, GenerateOptions, Generated};
use std::ops::ControlFlow;
pub(crate) use text::Text;
use wgoose_runtime::{Continuation, Engine, IN_FLIGHT, Outputs, Sequence, Start};

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
        let mut sampler = self.sampler(options)?;
        sampler.see(prompt);
        if prompt.is_empty() {
            return Err(SessionError::EmptyPrompt);
        }
        let on_device = self.engine.can_decode();
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
        let mut push = |token: u32, logprobs: Option<TokenLogprobs>| {
            let piece = text.push(tokenizer, token);
            let listed = logprobs.filter(|_| piece.is_some());
            broken = listed.is_some_and(|listed| on_event(GenerationEvent::Logprobs(&listed)).is_break())
                || piece.is_some_and(|piece| on_event(GenerationEvent::Text(&piece)).is_break());
            if broken || text.has_ended() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let start = logits.as_deref().map_or(Start::Kept, Start::Logits);
        let chosen = match options.grammar.as_ref().map(Grammar::matcher) {
            _ if options.max_tokens == 0 => Ok(()),
            None if on_device => choose_on_device(&mut self.engine, start, prompt, options, &mut push),
            Some(matcher) if on_device => choose_within(&mut self.engine, matcher, start, prompt, options, &mut push),
            matcher => {
                let logits = logits.unwrap_or_default();
                choose_here(&mut self.engine, logits, sampler, matcher, options.logprobs, &mut push)
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

/// Is given every chosen token, with log-probabilities if they were asked for; a break ends the text.
type OnToken<'a> = &'a mut dyn FnMut(u32, Option<TokenLogprobs>) -> ControlFlow<()>;

/// Tokens are chosen where the model runs, ahead of the text.
fn choose_on_device(
    engine: &mut Engine,
    start: Start<'_>,
    prompt: &[u32],
    options: &GenerateOptions,
    push: OnToken<'_>,
) -> Result<(), SessionError> {
    let past = Counts::after(options.sampling.penalties, prompt);
    let (past, max_tokens) = (past.list(), u32::try_from(options.max_tokens).unwrap_or(u32::MAX));
    let sequence = Continuation { max_tokens, ..continuation(0, options, &past, 0) };
    let listed = options.logprobs.unwrap_or_default();
    engine.decode(start, &[sequence], IN_FLIGHT, &mut |chosen| {
        chosen.iter().flatten().try_for_each(|chosen| push(chosen.token, TokenLogprobs::of(chosen, listed)))
    })?;
    Ok(())
}

/// Tokens are chosen where the model runs, among those that a grammar allows: it has to see each one before the next.
fn choose_within(
    engine: &mut Engine,
    mut matcher: Matcher,
    start: Start<'_>,
    prompt: &[u32],
    options: &GenerateOptions,
    push: OnToken<'_>,
) -> Result<(), SessionError> {
    let mut past = Counts::after(options.sampling.penalties, prompt);
    let (mut last, listed) = (None, options.logprobs.unwrap_or_default());
    for drawn in 0.. {
        matcher.compute_mask()?;
        let before = past.list();
        let sequence = Continuation { allowed: matcher.mask(), ..continuation(0, options, &before, drawn) };
        let start = last.as_ref().map_or(start, |last| Start::Tokens(std::slice::from_ref(last)));
        let (mut token, mut logprobs) = (None, None);
        engine.decode(start, &[sequence], 1, &mut |chosen| {
            let chosen = chosen.iter().flatten().next();
            (token, logprobs) =
                (chosen.map(|chosen| chosen.token), chosen.and_then(|chosen| TokenLogprobs::of(chosen, listed)));
            ControlFlow::Continue(())
        })?;
        let Some(token) = token else { return Ok(()) };
        if push(token, logprobs).is_break() {
            return Ok(());
        }
        matcher.push(token)?;
        past.push(token);
        last = Some(token);
    }
    Ok(())
}

/// Tokens are chosen here, from logits read back.
fn choose_here(
    engine: &mut Engine,
    mut logits: Vec<f32>,
    mut sampler: Sampler,
    mut matcher: Option<Matcher>,
    listed: Option<u8>,
    push: OnToken<'_>,
) -> Result<(), SessionError> {
    loop {
        let plain = listed.map(|listed| (logits.clone(), listed));
        if let Some(matcher) = &mut matcher {
            matcher.compute_mask()?;
            matcher.mask().into_iter().for_each(|mask| rule_out(&mut logits, mask));
        }
        let token = sampler.sample(&logits)?;
        let logprobs = plain.map(|(logits, listed)| TokenLogprobs::new(&logits, token, listed));
        if push(token, logprobs).is_break() {
            return Ok(());
        }
        matcher.as_mut().map_or(Ok(()), |matcher| matcher.push(token))?;
        let read = Sequence { slot: 0, tokens: &[token], outputs: Outputs::Last };
        logits = engine.forward(&[read])?.pop().unwrap_or_default();
    }
}
