//! A turn of a batch: admission, then a pass that prefills a chunk and decodes, or a run of decode steps.

use super::sequence::BatchSequence;
use super::{BatchEvent, SequenceId, SessionBatch, StateEnd};
use crate::SessionError;
use crate::chat::AnswerEnd;
use crate::generate::{Ending, GenerateOptions, Generated, continuation};
use crate::grammar::{Matcher, rule_out};
use crate::prefix::Snapshot;
use crate::sampling::TokenLogprobs;
use crate::tokenizer::Tokenizer;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;
use wgoose_runtime::{
    BatchError, ChosenToken, Continuation, DecodeError, IN_FLIGHT, MAX_STOPS, Outputs, RuntimeError, Sequence, Start,
    StateData,
};

/// Shortest prompt, in tokens, whose state at its end is cached: the answer may be asked for again.
const MIN_CACHED_PROMPT: usize = 512;

/// A sequence that ended in a turn.
pub(super) struct EndedSequence {
    pub(super) id: SequenceId,
    pub(super) slot: Option<usize>,
    /// The state that it started from; `None` for that of the batch.
    start: Option<Arc<StateData>>,
    /// The tokens that its state is to contain.
    tokens: Vec<u32>,
    /// Whether the prefix cache is to keep the state.
    is_cached: bool,
    /// Its result, if the state has to be returned before it.
    returns: Option<ReturnedState>,
    /// Whether the device does not know of the end: it continues the sequence, and changes its state.
    is_unknown: bool,
}

impl EndedSequence {
    /// A sequence without a result.
    pub(super) fn failed(id: SequenceId, slot: Option<usize>) -> Self {
        let (start, tokens, returns) = (None, Vec::new(), None);
        EndedSequence { id, slot, start, tokens, is_cached: false, returns, is_unknown: false }
    }
}

/// A result that waits for its state.
pub(super) struct ReturnedState {
    end: StateEnd,
    options: Arc<GenerateOptions>,
    rest: String,
    generated: Generated,
}

type OnEvent<'a> = &'a mut dyn FnMut(BatchEvent);

impl SessionBatch {
    /// One decode step, after the prefill that it needs: chooses a token for every sequence whose prompt was prefilled.
    /// Returns the events since the previous step.
    ///
    /// # Errors
    /// The device fails. The batch is empty then; events of sequences that had ended come with the next step.
    pub fn step(&mut self) -> Result<Vec<BatchEvent>, SessionError> {
        self.steps(NonZeroUsize::MIN)
    }

    /// Several steps, fewer if all sequences end; the events are the same. A device pipelines the steps of a call, so
    /// one call of many steps is faster than many calls; sequences join and leave between calls.
    ///
    /// # Errors
    /// As of [`SessionBatch::step`].
    pub fn steps(&mut self, steps: NonZeroUsize) -> Result<Vec<BatchEvent>, SessionError> {
        let (mut events, mut left) = (Vec::new(), Some(steps));
        while let Some(most) = left.filter(|_| !self.is_idle()) {
            match self.turn(most, &mut |event| events.push(event)) {
                Ok(ran) => left = NonZeroUsize::new(most.get() - ran),
                Err(why) => {
                    let ended = |event: &BatchEvent| matches!(event, BatchEvent::Ended(..) | BatchEvent::Failed(..));
                    let ended: Vec<SequenceId> = events.iter().filter(|e| ended(e)).map(BatchEvent::sequence).collect();
                    self.events = events.into_iter().filter(|event| ended.contains(&event.sequence())).collect();
                    return Err(why);
                }
            }
        }
        Ok(events)
    }

    /// One turn: admits queued sequences, then prefills one chunk and decodes a step, in one pass where the device
    /// chooses all tokens; or decodes up to `most` steps, at most some 50 ms of them, and one while a sequence has a
    /// grammar. Events arrive as they happen. Returns the number of decode steps.
    ///
    /// # Errors
    /// The device fails. The batch is empty then.
    pub fn turn(&mut self, most: NonZeroUsize, on_event: OnEvent<'_>) -> Result<usize, SessionError> {
        std::mem::take(&mut self.events).into_iter().for_each(&mut *on_event);
        let ran = self.admit(on_event).and_then(|()| self.pass(most.get(), on_event));
        ran.inspect_err(|_| {
            // Any of the states may be damaged.
            let ended: Vec<SequenceId> = self.sequences.keys().copied().collect();
            ended.into_iter().for_each(|id| drop(self.leave(id)));
        })
    }

    /// What a turn runs, after admission; returns the number of decode steps.
    fn pass(&mut self, most: usize, on_event: OnEvent<'_>) -> Result<usize, SessionError> {
        let mut ended = Vec::new();
        let ids = self.compute_masks(&mut ended, on_event);
        let mut chunk = self.schedule.chunk();
        if !chunk.is_empty() && (ids.is_empty() || !self.engine.can_decode()) {
            self.engine.forward(&passages(&self.tokens_of(&chunk)))?;
            self.prefilled(&std::mem::take(&mut chunk))?;
        }
        // A sequence whose prompt ends with this chunk decodes in the next turn.
        let steps = if ids.is_empty() { 0 } else { self.decode(&ids, most, &chunk, &mut ended, on_event)? };
        self.remove_ended(ended, on_event)?;
        Ok(steps)
    }

    /// Admits queued sequences while slots are free.
    fn admit(&mut self, on_event: OnEvent<'_>) -> Result<(), SessionError> {
        while let Some(id) = self.schedule.admit() {
            if let Some(sequence) = self.sequences.get_mut(&id) {
                sequence.slot = self.free.pop();
            }
            let cached = self.begin(id)?;
            on_event(BatchEvent::Admitted(id, cached));
        }
        Ok(())
    }

    /// Sets the state of a sequence to that of the longest cached prefix of its tokens; returns the length of the
    /// prefix.
    fn begin(&mut self, id: SequenceId) -> Result<usize, SessionError> {
        let Some(sequence) = self.sequences.get_mut(&id) else { return Ok(0) };
        let Some(slot) = sequence.slot else { return Ok(0) };
        let start = sequence.state.clone();
        let cached = match (&self.prefixes, sequence.to_prefill()) {
            // The cache is for sequences that start from the state of the batch.
            (Some(cache), tokens @ [_, ..]) if sequence.state.is_none() => {
                cache.lock().longest(&self.beginning_id, tokens, 0, false)
            }
            _ => None,
        };
        let length = cached.as_ref().map_or(0, |(length, _)| *length);
        sequence.set_prefilled(length);
        let unread = sequence.unread();
        match cached {
            Some((_, snapshot)) => self.engine.set_state(slot, &snapshot.state)?,
            None => self.set_start(slot, start.as_deref())?,
        }
        self.schedule.set_unread(id, unread);
        Ok(length)
    }

    /// Sets a slot to the state that a sequence starts from; `None` for that of the batch.
    fn set_start(&mut self, slot: usize, start: Option<&StateData>) -> Result<(), SessionError> {
        match start.or(self.beginning.as_ref()) {
            Some(state) => self.engine.set_state(slot, state)?,
            None => self.engine.reset(slot..slot + 1)?,
        }
        Ok(())
    }

    /// The slots and tokens of a chunk.
    fn tokens_of(&self, chunk: &[(SequenceId, usize)]) -> Vec<(usize, Vec<u32>)> {
        let of = |(id, tokens): &(SequenceId, usize)| {
            let sequence = self.sequences.get(id)?;
            Some((sequence.slot?, sequence.next(*tokens).to_vec()))
        };
        chunk.iter().filter_map(of).collect()
    }

    /// Records that a chunk was prefilled, and caches the states of long prompts.
    fn prefilled(&mut self, chunk: &[(SequenceId, usize)]) -> Result<(), SessionError> {
        self.schedule.prefilled(chunk);
        for (id, tokens) in chunk {
            let Some(sequence) = self.sequences.get_mut(id) else { continue };
            sequence.set_prefilled(sequence.prefilled().len() + tokens);
            let is_prompt = sequence.len() == 0 && sequence.unread() == 0;
            let is_long = sequence.prefilled().len() >= MIN_CACHED_PROMPT;
            let is_cached = sequence.keep && sequence.state.is_none();
            if let Some(slot) = sequence.slot.filter(|_| is_prompt && is_long && is_cached) {
                let tokens = sequence.prefilled().to_vec();
                self.cache_state(slot, &tokens)?;
            }
        }
        Ok(())
    }

    /// Stores the state of a slot, which is that after these tokens, in the prefix cache if there is one.
    fn cache_state(&mut self, slot: usize, tokens: &[u32]) -> Result<(), SessionError> {
        if let Some(cache) = self.prefixes.as_ref().filter(|_| !tokens.is_empty()) {
            let state = Arc::new(self.engine.state(slot)?);
            cache.lock().insert(self.beginning_id, tokens, Snapshot { state, logits: None });
        }
        Ok(())
    }

    /// Decodes up to `most` steps, or one beside the prefill of a chunk; returns the number of steps.
    fn decode(
        &mut self,
        ids: &[SequenceId],
        most: usize,
        chunk: &[(SequenceId, usize)],
        ended: &mut Vec<EndedSequence>,
        on_event: OnEvent<'_>,
    ) -> Result<usize, SessionError> {
        let left: Vec<usize> = ids.iter().filter_map(|id| self.sequences.get(id)).map(BatchSequence::left).collect();
        let is_one = !chunk.is_empty() || !self.engine.can_decode() || ids.iter().any(|id| self.has_grammar(*id));
        let steps = if is_one { 1 } else { self.schedule.steps(most, &left) };
        let begun = Instant::now();
        let decoded = match self.engine.can_decode() {
            true => self.decode_on_device(ids, steps, chunk, ended, on_event),
            false => self.decode_here(ids, ended, on_event),
        };
        match decoded {
            Ok(()) if chunk.is_empty() => self.schedule.decoded(ids.len(), steps, begun.elapsed()),
            Ok(()) => {
                self.schedule.decoded_beside(ids.len(), chunk, begun.elapsed());
                self.prefilled(chunk)?;
            }
            Err(why) => {
                let all: Vec<SequenceId> = ids.iter().copied().chain(chunk.iter().map(|(id, _)| *id)).collect();
                self.restart_without_failed(why, &all, ended, on_event)?;
            }
        }
        Ok(steps)
    }

    /// Frees the slots of ended sequences, after their states were cached and returned.
    fn remove_ended(&mut self, ended: Vec<EndedSequence>, on_event: OnEvent<'_>) -> Result<(), SessionError> {
        for EndedSequence { id, slot, start, tokens, is_cached, returns, is_unknown } in ended {
            if let (Some(slot), true, true) = (slot, is_unknown, returns.is_some()) {
                self.set_start(slot, start.as_deref())?;
                if !tokens.is_empty() {
                    self.engine.forward(&[Sequence { slot, tokens: &tokens, outputs: Outputs::None }])?;
                }
            }
            if let Some(slot) = slot.filter(|_| is_cached && (!is_unknown || returns.is_some())) {
                self.cache_state(slot, &tokens)?;
            }
            if let (Some(slot), Some(returns)) = (slot, returns) {
                self.return_state(id, slot, returns, on_event)?;
            }
            self.free.extend(slot);
            self.schedule.leave(id);
        }
        Ok(())
    }

    /// Returns the state of an ended sequence, after the tokens that it has not read, and then its result.
    fn return_state(
        &mut self,
        id: SequenceId,
        slot: usize,
        returned: ReturnedState,
        on_event: OnEvent<'_>,
    ) -> Result<(), SessionError> {
        let ReturnedState { end, options, rest, generated } = returned;
        let tokens: Vec<u32> = match end {
            StateEnd::Text => match generated.ending {
                // The unread token completes the stop string.
                Ending::StopString(_) => Vec::new(),
                _ => generated.unread().into_iter().collect(),
            },
            StateEnd::NextMessage(next) => {
                let end = AnswerEnd::new(&self.tokenizer, &generated, &options.stop_strings);
                self.tokenizer.encode(&end.to_next_message(&next))
            }
        };
        if !tokens.is_empty() {
            self.engine.forward(&[Sequence { slot, tokens: &tokens, outputs: Outputs::None }])?;
        }
        on_event(BatchEvent::State(id, Arc::new(self.engine.state(slot)?)));
        if !rest.is_empty() {
            on_event(BatchEvent::Text(id, rest));
        }
        on_event(BatchEvent::Ended(id, generated));
        Ok(())
    }

    fn decode_on_device(
        &mut self,
        ids: &[SequenceId],
        steps: usize,
        chunk: &[(SequenceId, usize)],
        ended: &mut Vec<EndedSequence>,
        on_event: OnEvent<'_>,
    ) -> Result<(), SessionError> {
        let prefilled = self.tokens_of(chunk);
        let SessionBatch { engine, tokenizer, sequences, .. } = self;
        let next: Vec<NextToken> = ids.iter().filter_map(|id| NextToken::of(sequences.get(id)?)).collect();
        let reads: Vec<u32> = next.iter().map(|next| next.read).collect();
        let continued: Vec<Continuation<'_>> = next.iter().map(|next| next.continuation(steps)).collect();
        let mut before = Vec::new();
        let on_tokens = &mut |chosen: &[Option<ChosenToken<'_>>]| {
            // Of those that ended in the rounds before, the states have moved on.
            before.append(ended);
            for ((id, next), chosen) in ids.iter().zip(&next).zip(chosen) {
                let Some(chosen) = chosen else { continue };
                let logprobs = next.options.logprobs.and_then(|listed| TokenLogprobs::of(chosen, listed));
                push(sequences, tokenizer, *id, (chosen.token, logprobs), ended, on_event);
            }
        };
        let decoded = match prefilled.is_empty() {
            true => engine.decode_unbroken(Start::Tokens(&reads), &continued, IN_FLIGHT.min(steps), on_tokens),
            false => engine.decode_beside(&reads, &continued, &passages(&prefilled), on_tokens),
        };
        // The states of those that ended in the last round are theirs.
        ended.iter_mut().for_each(|sequence| sequence.is_unknown = false);
        ended.extend(before);
        decoded?;
        Ok(())
    }

    /// One step with sampling on the CPU, from logits read back.
    fn decode_here(
        &mut self,
        ids: &[SequenceId],
        ended: &mut Vec<EndedSequence>,
        on_event: OnEvent<'_>,
    ) -> Result<(), SessionError> {
        let SessionBatch { engine, tokenizer, sequences, .. } = self;
        let reads: Vec<(usize, [u32; 1])> = ids
            .iter()
            .filter_map(|id| sequences.get(id))
            .filter_map(|sequence| Some((sequence.slot?, [sequence.last()])))
            .collect();
        let read: Vec<Sequence<'_>> =
            reads.iter().map(|(slot, tokens)| Sequence { slot: *slot, tokens, outputs: Outputs::Last }).collect();
        for (id, mut logits) in ids.iter().zip(engine.forward(&read)?) {
            let Some(sequence) = sequences.get_mut(id) else { continue };
            let plain = sequence.options.logprobs.map(|listed| (logits.clone(), listed));
            if let Some(mask) = sequence.matcher.as_ref().and_then(Matcher::mask) {
                rule_out(&mut logits, mask);
            }
            match sequence.sampler.sample(&logits) {
                Ok(token) => {
                    let logprobs = plain.map(|(logits, listed)| TokenLogprobs::new(&logits, token, listed));
                    push(sequences, tokenizer, *id, (token, logprobs), ended, on_event);
                }
                Err(why) => {
                    ended.push(EndedSequence::failed(*id, sequence.slot));
                    sequences.remove(id);
                    on_event(BatchEvent::Failed(*id, why.into()));
                }
            }
        }
        Ok(())
    }

    /// After a step in which no token could be chosen for one sequence: that sequence leaves, and the others start
    /// again with the prefill of all their tokens, for the failed step has damaged their states.
    ///
    /// # Errors
    /// The error names no sequence, or the device fails.
    fn restart_without_failed(
        &mut self,
        why: SessionError,
        ids: &[SequenceId],
        ended: &mut Vec<EndedSequence>,
        on_event: OnEvent<'_>,
    ) -> Result<(), SessionError> {
        let SessionError::Runtime(RuntimeError::Decode(DecodeError::NoToken { sequence, .. })) = why else {
            return Err(why);
        };
        let Some((id, sequence)) = ids.get(sequence).and_then(|id| Some((*id, self.sequences.remove(id)?))) else {
            return Err(why);
        };
        for sequence in ended.iter_mut() {
            sequence.is_cached = false;
            if let (Some(slot), Some(_)) = (sequence.slot, sequence.returns.take()) {
                let lost = RuntimeError::from(BatchError::Invalidated { sequence: 0, slot });
                on_event(BatchEvent::Failed(sequence.id, lost.into()));
            }
        }
        ended.push(EndedSequence::failed(id, sequence.slot));
        on_event(BatchEvent::Failed(id, why));
        for id in ids {
            if let Some(sequence) = self.sequences.get(id) {
                self.schedule.restart(*id, sequence.priority);
                self.begin(*id)?;
            }
        }
        Ok(())
    }
}

/// The next token of a sequence: what it reads, and how it is chosen.
struct NextToken {
    slot: usize,
    read: u32,
    options: Arc<GenerateOptions>,
    past: Vec<(u32, f32)>,
    drawn: usize,
    left: usize,
    mask: Option<Vec<u32>>,
}

impl NextToken {
    fn of(sequence: &BatchSequence) -> Option<Self> {
        Some(NextToken {
            slot: sequence.slot?,
            read: sequence.last(),
            options: Arc::clone(&sequence.options),
            past: sequence.past(),
            drawn: sequence.len(),
            left: sequence.left(),
            mask: sequence.matcher.as_ref().and_then(Matcher::mask).map(<[u32]>::to_vec),
        })
    }

    /// It and those after it, `steps` together if the text has as many left.
    fn continuation(&self, steps: usize) -> Continuation<'_> {
        let max_tokens = u32::try_from(steps.min(self.left)).unwrap_or(u32::MAX);
        let allowed = self.mask.as_deref();
        Continuation { allowed, max_tokens, ..continuation(self.slot, &self.options, &self.past, self.drawn) }
    }
}

/// What a pass prefills.
fn passages(tokens: &[(usize, Vec<u32>)]) -> Vec<Sequence<'_>> {
    tokens.iter().map(|(slot, tokens)| Sequence { slot: *slot, tokens, outputs: Outputs::None }).collect()
}

/// Appends a chosen token to a sequence; removes the sequence if it has ended.
fn push(
    sequences: &mut BTreeMap<SequenceId, BatchSequence>,
    tokenizer: &Tokenizer,
    id: SequenceId,
    (token, logprobs): (u32, Option<TokenLogprobs>),
    ended: &mut Vec<EndedSequence>,
    on_event: OnEvent<'_>,
) {
    let Some(sequence) = sequences.get_mut(&id) else { return };
    if let Some(piece) = sequence.push(tokenizer, token) {
        logprobs.into_iter().for_each(|logprobs| on_event(BatchEvent::Logprobs(id, logprobs)));
        if !piece.is_empty() {
            on_event(BatchEvent::Text(id, piece));
        }
    }
    if sequence.has_ended()
        && let Some(sequence) = sequences.remove(&id)
    {
        let (slot, start, options) = (sequence.slot, sequence.state.clone(), Arc::clone(&sequence.options));
        let (returned, tokens) = (sequence.returned.clone(), sequence.prefilled().to_vec());
        let is_cached = sequence.keep && start.is_none();
        let (rest, generated) = sequence.finish();
        let is_unknown = match generated.ending {
            Ending::StopString(_) => true,
            Ending::StopToken(token) => !options.stop_tokens.iter().take(MAX_STOPS).any(|stop| *stop == token),
            Ending::MaxTokens | Ending::Caller => false,
        };
        let before = EndedSequence { id, slot, start, tokens, is_cached, returns: None, is_unknown };
        if let Some(end) = returned {
            let returns = Some(ReturnedState { end, options, rest, generated });
            ended.push(EndedSequence { returns, ..before });
            return;
        }
        ended.push(before);
        if !rest.is_empty() {
            on_event(BatchEvent::Text(id, rest));
        }
        on_event(BatchEvent::Ended(id, generated));
    }
}
