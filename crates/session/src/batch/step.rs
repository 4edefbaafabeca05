//! Steps of a batch: a token for every sequence, chosen on the device where it can, else from logits read back.

use super::sequence::BatchSequence;
use super::{BatchEvent, SessionBatch};
use crate::SessionError;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use wgoose_runtime::{Continuation, IN_FLIGHT, Outputs, Sequence, Start};

impl SessionBatch {
    /// Chooses a token for every sequence; tells what happened since the step before, joining included.
    ///
    /// # Errors
    /// The device fails, or the model's arithmetic breaks down. All sequences have left then; what is to be told of
    /// those that had ended before comes with the next step.
    pub fn step(&mut self) -> Result<Vec<BatchEvent>, SessionError> {
        self.steps(NonZeroUsize::MIN)
    }

    /// As many steps at once, fewer if all sequences end: the same events. On a device they run ahead of one another,
    /// so that many steps a call are faster than one; who joins or leaves has to wait that long.
    ///
    /// # Errors
    /// As of [`SessionBatch::step`].
    pub fn steps(&mut self, steps: NonZeroUsize) -> Result<Vec<BatchEvent>, SessionError> {
        if !self.sequences.is_empty() {
            let gone = match self.engine.can_decode() {
                true => self.steps_on_device(steps.get()),
                false => (0..steps.get()).try_for_each(|_| self.step_here()),
            };
            if let Err(why) = gone {
                // Whose states are still good is not known.
                let gone = std::mem::take(&mut self.sequences);
                self.events.retain(|event| !gone.contains_key(&event.sequence()));
                self.free.extend(gone.into_values().map(|sequence| sequence.slot));
                return Err(why);
            }
            self.part_with_ended();
        }
        Ok(std::mem::take(&mut self.events))
    }

    fn steps_on_device(&mut self, steps: usize) -> Result<(), SessionError> {
        let SessionBatch { engine, tokenizer, sequences, events, .. } = self;
        let reads: Vec<u32> = sequences.values().map(BatchSequence::last).collect();
        let chosen: Vec<Vec<(u32, f32)>> = sequences.values().map(BatchSequence::chosen).collect();
        let mut rounds: Vec<Vec<Option<u32>>> = Vec::new();
        {
            let going: Vec<Continuation<'_>> = sequences
                .values()
                .zip(&chosen)
                .map(|(sequence, chosen)| sequence.continuation(chosen, steps))
                .collect();
            engine.decode(Start::Tokens(&reads), &going, IN_FLIGHT.min(steps), &mut |ids| {
                rounds.push(ids.to_vec());
                ControlFlow::Continue(())
            })?;
        }
        for ids in rounds {
            for ((id, sequence), token) in sequences.iter_mut().zip(ids) {
                if let Some(token) = token {
                    sequence.push(*id, tokenizer, token, events);
                }
            }
        }
        Ok(())
    }

    fn step_here(&mut self) -> Result<(), SessionError> {
        self.part_with_ended();
        let SessionBatch { engine, tokenizer, sequences, events, .. } = self;
        if sequences.is_empty() {
            return Ok(());
        }
        let reads: Vec<[u32; 1]> = sequences.values().map(|sequence| [sequence.last()]).collect();
        let pairs = sequences.values().zip(&reads);
        let read: Vec<Sequence<'_>> =
            pairs.map(|(sequence, tokens)| Sequence { slot: sequence.slot, tokens, outputs: Outputs::Last }).collect();
        for ((id, sequence), logits) in sequences.iter_mut().zip(engine.forward(&read)?) {
            let token = sequence.sampler.sample(&logits)?;
            sequence.push(*id, tokenizer, token, events);
        }
        Ok(())
    }

    /// Reads a prompt from the beginning of all sequences; returns the token after it, if one is wanted, chosen as
    /// every other is.
    pub(super) fn begin(&mut self, sequence: &mut BatchSequence, prompt: &[u32]) -> Result<Option<u32>, SessionError> {
        let slot = sequence.slot;
        match &self.beginning {
            Some(state) => self.engine.set_state(slot, state)?,
            None => self.engine.reset(slot..slot + 1)?,
        }
        let mut first = None;
        if !self.engine.can_decode() {
            let read = Sequence { slot, tokens: prompt, outputs: Outputs::Last };
            let logits = self.engine.forward(&[read])?.pop().unwrap_or_default();
            if sequence.wants_tokens() {
                first = Some(sequence.sampler.sample(&logits)?);
            }
            return Ok(first);
        }
        self.engine.read(slot, prompt, &mut |_| ControlFlow::Continue(()))?;
        if !sequence.wants_tokens() {
            return Ok(first);
        }
        self.engine.decode(Start::Kept, &[sequence.continuation(&[], 1)], 1, &mut |ids| {
            first = ids.iter().flatten().next().copied();
            ControlFlow::Continue(())
        })?;
        Ok(first)
    }
}
