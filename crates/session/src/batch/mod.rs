//! Many sequences generated together, each with its own settings, joining and leaving between steps.
//!
//! A sequence gives the output of [`Session::generate`] from the same beginning, prompt and options. Its prompt is
//! prefilled alone, in the same passes: the same bits. A step decodes one token of every sequence. On the CPU reference
//! batching changes no bit. On a GPU a plan chooses kernels by the batch size, up to 1, 4, 16, ..., and kernels may
//! round differently: logits then agree within the tolerance of the plan's kernels, and texts are the same unless two
//! tokens are that close, or a draw falls that close to the border of two tokens. Random numbers depend only on a
//! sequence's own seed and number of tokens. A plan with the same decode kernels for all batch sizes gives the same
//! text in any company.

mod event;
mod sequence;
mod step;

pub use event::{BatchEvent, SequenceId};

use crate::generate::{GenerateOptions, Generated};
use crate::sampling::Sampler;
use crate::tokenizer::Tokenizer;
use crate::{Session, SessionError, grow};
use sequence::BatchSequence;
use std::collections::BTreeMap;
use wgoose_runtime::{Engine, StateData};

/// Sequences that are generated together. All begin with the state that the session had when the batch was made.
pub struct SessionBatch {
    engine: Engine,
    tokenizer: Tokenizer,
    /// `None`: nothing was read.
    beginning: Option<StateData>,
    capacity: usize,
    /// Slots without a sequence.
    free: Vec<usize>,
    sequences: BTreeMap<SequenceId, BatchSequence>,
    /// What happened since the last step.
    events: Vec<BatchEvent>,
    next: u64,
}

impl Session {
    /// A batch with room for that many sequences, at least 1, on this session's weights and kernels. Within a memory
    /// budget, or where the device cannot bind so many states, there is room for fewer: see [`SessionBatch::capacity`].
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
        Ok(SessionBatch {
            engine,
            tokenizer,
            beginning: Some(state).filter(|state| !state.is_zero()),
            capacity,
            free: (0..capacity).rev().collect(),
            sequences: BTreeMap::new(),
            events: Vec::new(),
            next: 0,
        })
    }
}

impl SessionBatch {
    /// How many sequences there is room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many more may join now.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// The sequences that have not ended, in the order in which they joined.
    pub fn sequences(&self) -> impl Iterator<Item = SequenceId> {
        self.sequences.keys().copied()
    }

    /// Whether a step would do nothing: no sequence goes on, and every event was given.
    pub fn is_idle(&self) -> bool {
        self.sequences.is_empty() && self.events.is_empty()
    }

    /// Reads a prompt and chooses its first token, which the next step tells of.
    ///
    /// # Errors
    /// There is no room ([`SessionError::NoRoom`]), an empty prompt, options that make no sense, or the device fails. The
    /// other sequences are not touched.
    pub fn join(&mut self, prompt: &[u8], options: &GenerateOptions) -> Result<SequenceId, SessionError> {
        options.sampling.check_tokens(self.engine.shape().vocab)?;
        let sampler = Sampler::new(options.sampling.clone())?;
        let prompt = self.tokenizer.encode(prompt);
        if prompt.is_empty() {
            return Err(SessionError::EmptyPrompt);
        }
        let slot = self.free.pop().ok_or(SessionError::NoRoom(self.capacity))?;
        let id = SequenceId(self.next);
        let mut sequence = BatchSequence::new(slot, prompt.len(), options.clone(), sampler);
        let begun = self.begin(&mut sequence, &prompt).map(|first| {
            first.into_iter().for_each(|token| sequence.push(id, &self.tokenizer, token, &mut self.events));
        });
        if let Err(why) = begun {
            self.free.push(slot);
            return Err(why);
        }
        self.next += 1;
        self.sequences.insert(id, sequence);
        self.part_with_ended();
        Ok(id)
    }

    /// Ends a sequence; returns the rest of its text, with that of which no step has told, and what was generated.
    ///
    /// # Errors
    /// It is not in the batch.
    pub fn leave(&mut self, id: SequenceId) -> Result<(String, Generated), SessionError> {
        let sequence = self.sequences.remove(&id).ok_or(SessionError::NoSequence(id))?;
        self.free.push(sequence.slot);
        let mut untold = String::new();
        self.events.retain(|event| match event {
            BatchEvent::Text(of, text) if *of == id => {
                untold.push_str(text);
                false
            }
            _ => true,
        });
        let (rest, generated) = sequence.finish();
        Ok((untold + &rest, generated))
    }

    /// Gives back the slots of those that have ended, and tells of it.
    fn part_with_ended(&mut self) {
        for (id, sequence) in self.sequences.extract_if(.., |_, sequence| sequence.has_ended()) {
            self.free.push(sequence.slot);
            let (rest, generated) = sequence.finish();
            self.events.extend((!rest.is_empty()).then_some(BatchEvent::Text(id, rest)));
            self.events.push(BatchEvent::Ended(id, generated));
        }
    }
}
