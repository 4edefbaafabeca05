//! Continuous batching: many sequences decode together, each with its own settings, and join and leave between steps.
//!
//! A sequence that joins is queued until a slot is free. Prompts are prefilled in packed chunks beside decode, see
//! [`schedule`]; a decode step takes the last token of every other sequence and chooses its next one.
//!
//! A sequence gives the output of [`Session::generate`] from the same beginning, prompt and options, but for rounding:
//! the passes over its prompt depend on the other sequences, the CPU reference rounds the state after each pass, and on a
//! GPU a plan chooses kernels by the number of rows. Logits agree within the tolerance of the kernels, and texts are the
//! same unless two tokens are that close, or a draw falls that close to the border of two tokens. Random numbers depend
//! only on the seed of a sequence and its number of tokens. With
//! [`SessionBuilder::batch_invariant`](crate::SessionBuilder::batch_invariant) a text does not depend on other
//! sequences.

mod event;
mod masks;
mod request;
mod schedule;
mod sequence;
mod turn;

pub use event::{BatchEvent, SequenceId};
pub use request::{BatchRequest, StateEnd};

use crate::generate::{GenerateOptions, Generated};
use crate::prefix::{Beginning, PrefixCache};
use crate::sampling::{SampleError, Sampler};
use crate::tokenizer::Tokenizer;
use crate::{Session, SessionError, grow};
use parking_lot::Mutex;
use schedule::Schedule;
use sequence::BatchSequence;
use std::collections::BTreeMap;
use std::sync::Arc;
use wgoose_runtime::{BatchError, Engine, RuntimeError, StateData, check_tokens};

/// Sequences that are generated together. All begin with the state that the session had when the batch was made.
pub struct SessionBatch {
    engine: Engine,
    tokenizer: Tokenizer,
    /// `None`: nothing was read.
    beginning: Option<StateData>,
    /// The same, for the prefix cache.
    beginning_id: Beginning,
    prefixes: Option<Arc<Mutex<PrefixCache>>>,
    capacity: usize,
    queue: usize,
    /// Slots without a sequence.
    free: Vec<usize>,
    sequences: BTreeMap<SequenceId, BatchSequence>,
    schedule: Schedule,
    /// Events of sequences that ended before a step failed.
    events: Vec<BatchEvent>,
    next: u64,
}

impl Session {
    /// A batch with room for that many sequences, at least 1, on this session's weights and kernels, with its prefix
    /// cache. Within a memory budget, or where the device cannot bind the states, the batch is smaller: see
    /// [`SessionBatch::capacity`].
    ///
    /// # Errors
    /// The model can only be given token ids, or the device fails or has no memory left: a batch has states and
    /// activations of its own, beside any memory budget.
    pub fn batch(&mut self, sequences: usize) -> Result<SessionBatch, SessionError> {
        let tokenizer = self.tokenizer()?.clone();
        let state = self.engine.state(0)?;
        let mut engine = self.engine.fork()?;
        // A step gives a row of logits for each.
        let sequences = sequences.clamp(1, engine.max_outputs().max(1));
        let capacity = grow(&mut engine, sequences)?.min(sequences);
        engine.pad_passes(&schedule::expected_passes(capacity, engine.chunk()))?;
        Ok(SessionBatch {
            tokenizer,
            beginning_id: Beginning::of(&state),
            beginning: Some(state).filter(|state| !state.is_zero()),
            prefixes: self.prefixes.as_ref().map(|kept| Arc::clone(&kept.cache)),
            capacity,
            queue: 0,
            free: (0..capacity).rev().collect(),
            sequences: BTreeMap::new(),
            schedule: Schedule::new(capacity, engine.chunk()),
            engine,
            events: Vec::new(),
            next: 0,
        })
    }
}

impl SessionBatch {
    /// The same batch with a queue of that many sequences.
    pub fn with_queue(self, queue: usize) -> Self {
        SessionBatch { queue, ..self }
    }

    /// Number of slots: sequences that can decode together.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of sequences that can join now, in free slots and in the queue.
    pub fn room(&self) -> usize {
        (self.capacity + self.queue).saturating_sub(self.sequences.len())
    }

    /// Number of queued sequences.
    pub fn waiting(&self) -> usize {
        self.schedule.waiting()
    }

    /// The sequences that have not ended, in the order in which they joined.
    pub fn sequences(&self) -> impl Iterator<Item = SequenceId> {
        self.sequences.keys().copied()
    }

    /// Whether a step would do nothing: there are no sequences and no events.
    pub fn is_idle(&self) -> bool {
        self.sequences.is_empty() && self.events.is_empty()
    }

    /// Adds a sequence: see [`SessionBatch::join_request`].
    ///
    /// # Errors
    /// As of [`SessionBatch::join_request`].
    pub fn join(&mut self, prompt: &[u8], options: &GenerateOptions) -> Result<SequenceId, SessionError> {
        self.join_request(BatchRequest::new(self.tokenizer.encode(prompt), options.clone()))
    }

    /// Adds a sequence, which the next steps prefill and decode. The call itself does no work on the device.
    ///
    /// # Errors
    /// There is no room ([`SessionError::NoRoom`]), an empty prompt, a token outside the vocabulary, options that make
    /// no sense or rule out every token, a grammar or a state of another model, or a model without an output head.
    pub fn join_request(&mut self, request: BatchRequest) -> Result<SequenceId, SessionError> {
        let shape = *self.engine.shape();
        let sampling = &request.options.sampling;
        sampling.check_tokens(shape.vocab)?;
        request.options.grammar.as_ref().map_or(Ok(()), |grammar| grammar.check(shape.vocab))?;
        let sampler = Sampler::new(sampling.clone())?;
        // Of several for one token the last counts.
        let biases: BTreeMap<u32, f32> = sampling.bias.iter().copied().collect();
        if biases.len() == shape.vocab as usize && biases.values().all(|bias| *bias == f32::NEG_INFINITY) {
            return Err(SampleError::AllRuledOut.into());
        }
        if request.prompt.is_empty() {
            return Err(SessionError::EmptyPrompt);
        }
        check_tokens(0, &request.prompt, shape.vocab).map_err(RuntimeError::from)?;
        if !shape.output_head {
            return Err(RuntimeError::from(BatchError::NoOutputHead).into());
        }
        if let Some(state) = &request.state {
            state.check(&shape)?;
        }
        if self.room() == 0 {
            return Err(SessionError::NoRoom(self.capacity + self.queue));
        }
        let id = SequenceId(self.next);
        self.next += 1;
        let priority = request.priority;
        let sequence = BatchSequence::new(request, sampler);
        if sequence.has_ended() {
            let (_, generated) = sequence.finish();
            self.events.push(BatchEvent::Ended(id, generated));
        } else {
            self.sequences.insert(id, sequence);
            self.schedule.join(id, priority);
        }
        Ok(id)
    }

    /// Tokens of a sequence that are still to be prefilled; `None` if it is not in the batch.
    pub fn unread(&self, id: SequenceId) -> Option<usize> {
        self.sequences.get(&id).map(BatchSequence::unread)
    }

    /// Ends a sequence; returns the rest of its text and its result.
    ///
    /// # Errors
    /// It is not in the batch.
    pub fn leave(&mut self, id: SequenceId) -> Result<(String, Generated), SessionError> {
        let sequence = self.sequences.remove(&id).ok_or(SessionError::NoSequence(id))?;
        self.schedule.leave(id);
        self.free.extend(sequence.slot);
        Ok(sequence.finish())
    }
}
