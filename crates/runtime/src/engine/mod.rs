//! The engine: sequences of any length in, split into passes of the plan's chunk size.

mod hidden;
mod trace;

use crate::decode::{Continuation, DecodeError, DecodeReport, Start};
use crate::report::LoadReport;
use crate::{
    Batch, BatchError, CpuExecutor, Device, Executor, GpuExecutor, Outputs, RuntimeError, Sequence, StateData,
};
use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use wgoose_graph::{ModelShape, State};
use wgoose_kernels::{Catalogue, Plan};
use wgoose_loader::Model;

/// Chunk of the CPU executor; it only bounds memory.
const CPU_CHUNK: usize = 128;

/// What runs one batch: the executor's way to do it.
type Runner<'a> = dyn FnMut(&mut dyn Executor, &Batch) -> Result<Vec<f32>, RuntimeError> + 'a;

/// Runs sequences on a GPU or on the CPU.
pub struct Engine {
    executor: Box<dyn Executor>,
    chunk: usize,
    /// Slots whose sequences were in a call that failed half way, or that left out layers: their states are those of no
    /// text.
    invalidated: BTreeSet<usize>,
    /// Whether a pass of the call that is under way may have changed states.
    has_begun: bool,
}

impl Engine {
    /// Any executor; passes have at most `chunk` tokens, at least 1.
    pub fn new(executor: Box<dyn Executor>, chunk: usize) -> Self {
        Engine { executor, chunk: chunk.max(1), invalidated: BTreeSet::new(), has_begun: false }
    }

    /// A plan on a device, with `slots` sequences.
    ///
    /// # Errors
    /// The plan does not fit the model.
    pub fn gpu(
        device: Arc<Device>,
        model: Arc<Model>,
        plan: Plan,
        catalogue: Arc<Catalogue>,
        slots: usize,
    ) -> Result<Self, RuntimeError> {
        let chunk = plan.prefill_chunk as usize;
        Ok(Engine::new(Box::new(GpuExecutor::new(device, model, plan, catalogue, slots)?), chunk))
    }

    /// The CPU reference, with `slots` sequences.
    ///
    /// # Errors
    /// The model's sizes make no graph.
    pub fn cpu(model: Arc<Model>, slots: usize) -> Result<Self, RuntimeError> {
        Ok(Engine::new(Box::new(CpuExecutor::new(model, slots)?), CPU_CHUNK))
    }

    /// The same engine with another chunk size.
    pub fn with_chunk(self, chunk: usize) -> Self {
        Engine { chunk: chunk.max(1), ..self }
    }

    /// Sizes of the model.
    pub fn shape(&self) -> &ModelShape {
        self.executor.shape()
    }

    /// How many sequences can have a state at once.
    pub fn slots(&self) -> usize {
        self.executor.slots()
    }

    /// Most tokens in one pass.
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// What loading has taken so far.
    pub fn report(&self) -> LoadReport {
        self.executor.report()
    }

    /// Continues sequences; returns for each the logits asked for, `[outputs, V]` row major. Sequences are packed into
    /// passes in the order given, a long one over several.
    ///
    /// # Errors
    /// A sequence that cannot be run (nothing has been run then), or the device or the file fails: the states of the
    /// sequences are invalidated then, and refused until they are set again.
    pub fn forward(&mut self, sequences: &[Sequence<'_>]) -> Result<Vec<Vec<f32>>, RuntimeError> {
        self.forward_by(sequences, &mut |executor, batch| executor.run(batch))
    }

    /// As [`Engine::forward`], each pass by a runner.
    fn forward_by(
        &mut self,
        sequences: &[Sequence<'_>],
        runner: &mut Runner<'_>,
    ) -> Result<Vec<Vec<f32>>, RuntimeError> {
        self.check(sequences)?;
        self.all_or_spoiled(sequences, |engine| engine.passes(sequences, runner))
    }

    /// Runs the passes of a call. If it fails after the first has begun, the states of all its sequences are invalidated.
    fn all_or_spoiled<T>(
        &mut self,
        sequences: &[Sequence<'_>],
        call: impl FnOnce(&mut Self) -> Result<T, RuntimeError>,
    ) -> Result<T, RuntimeError> {
        self.has_begun = false;
        let result = call(self);
        if result.is_err() && self.has_begun {
            self.invalidated.extend(sequences.iter().map(|s| s.slot));
        }
        result
    }

    /// Packs sequences into passes and runs them.
    fn passes(&mut self, sequences: &[Sequence<'_>], runner: &mut Runner<'_>) -> Result<Vec<Vec<f32>>, RuntimeError> {
        let mut logits: Vec<Vec<f32>> = vec![Vec::new(); sequences.len()];
        let mut pass: Vec<(usize, Sequence<'_>)> = Vec::new();
        let most_outputs = self.executor.max_outputs().max(1);
        let (mut room, mut output_room) = (self.chunk, most_outputs);
        for (i, sequence) in sequences.iter().enumerate() {
            let mut rest = sequence.tokens;
            while !rest.is_empty() {
                let room_here = if sequence.outputs == Outputs::All { room.min(output_room) } else { room };
                let (now, later) = rest.split_at(rest.len().min(room_here));
                let outputs = match sequence.outputs {
                    Outputs::Last if !later.is_empty() => Outputs::None,
                    outputs => outputs,
                };
                pass.push((i, Sequence { tokens: now, outputs, ..*sequence }));
                room -= now.len();
                output_room -= outputs.rows(now.len());
                rest = later;
                if room == 0 || output_room == 0 {
                    self.pass(&pass, &mut logits, runner)?;
                    pass.clear();
                    (room, output_room) = (self.chunk, most_outputs);
                }
            }
        }
        if !pass.is_empty() {
            self.pass(&pass, &mut logits, runner)?;
        }
        Ok(logits)
    }

    fn pass(
        &mut self,
        pass: &[(usize, Sequence<'_>)],
        logits: &mut [Vec<f32>],
        runner: &mut Runner<'_>,
    ) -> Result<(), RuntimeError> {
        let sequences: Vec<Sequence<'_>> = pass.iter().map(|(_, s)| *s).collect();
        let vocab = self.shape().vocab;
        let batch = Batch::pack(&sequences, vocab, self.slots())?;
        let all = self.run_by(&batch, runner)?;
        let mut rest = &all[..];
        for (i, s) in pass {
            let (own, others) = rest.split_at(s.outputs.rows(s.tokens.len()) * vocab as usize);
            logits[*i].extend_from_slice(own);
            rest = others;
        }
        Ok(())
    }

    /// Refuses sequences that cannot be run.
    fn check(&self, sequences: &[Sequence<'_>]) -> Result<(), RuntimeError> {
        Batch::pack(sequences, self.shape().vocab, self.slots())?;
        let invalidated = |s: &Sequence<'_>| self.invalidated.contains(&s.slot);
        match sequences.iter().position(invalidated) {
            Some(sequence) => Err(BatchError::Invalidated { sequence, slot: sequences[sequence].slot }.into()),
            None => Ok(()),
        }
    }

    fn run_by(&mut self, batch: &Batch, runner: &mut Runner<'_>) -> Result<Vec<f32>, RuntimeError> {
        let result = runner(&mut *self.executor, batch);
        // Nothing has run where it is refused.
        self.has_begun |= !matches!(result, Err(RuntimeError::Streamed));
        result
    }

    /// Whether tokens can be chosen where the model runs, see [`Engine::decode`].
    pub fn can_decode(&mut self) -> bool {
        self.executor.decoder().is_some()
    }

    /// Continues sequences with tokens chosen on the device, a token each a round, up to `in_flight` rounds ahead of
    /// the ids that come back. `on_tokens` is given the ids of a round in the order of the sequences, `None` for those
    /// that ended before; breaking ends the call for all of them.
    ///
    /// However it ends, each state is that after all tokens of its sequence but the last one chosen, bit for bit as if
    /// the tokens had been read one a pass: nothing of what ran ahead is left.
    ///
    /// # Errors
    /// Sequences or settings that make no sense (nothing has been run then), [`DecodeError::Unsupported`] unless
    /// [`Engine::can_decode`], logits without a token to choose, or the device fails: the states of the sequences are
    /// invalidated then.
    pub fn decode(
        &mut self,
        start: Start<'_>,
        sequences: &[Continuation<'_>],
        in_flight: usize,
        on_tokens: &mut dyn FnMut(&[Option<u32>]) -> ControlFlow<()>,
    ) -> Result<DecodeReport, RuntimeError> {
        let invalidated = |s: &Continuation<'_>| self.invalidated.contains(&s.slot);
        if let Some(sequence) = sequences.iter().position(invalidated) {
            return Err(BatchError::Invalidated { sequence, slot: sequences[sequence].slot }.into());
        }
        let decoder = self.executor.decoder().ok_or(DecodeError::Unsupported)?;
        let batch = decoder.check_decode(start, sequences)?;
        decoder.decode(batch, start, sequences, in_flight, on_tokens).inspect_err(|_| {
            self.invalidated.extend(sequences.iter().map(|s| s.slot));
        })
    }

    /// Copies a slot's state out.
    ///
    /// # Errors
    /// There is no such slot, its state is invalidated, or the device fails.
    pub fn state(&mut self, slot: usize) -> Result<StateData, RuntimeError> {
        self.check_slot(slot)?;
        if self.invalidated.contains(&slot) {
            return Err(BatchError::Invalidated { sequence: 0, slot }.into());
        }
        self.executor.state(slot)
    }

    /// Copies one tensor of a slot's state out.
    ///
    /// # Errors
    /// There is no such slot, the model has no such layer, or the device fails. A state that was invalidated because layers
    /// were left out may be asked for tensors of the others.
    pub fn state_tensor(&mut self, slot: usize, tensor: State) -> Result<Vec<f32>, RuntimeError> {
        self.check_slot(slot)?;
        let (layer, layers) = (tensor.layer(), self.shape().layers);
        if layer >= layers {
            return Err(BatchError::Layer { layer, layers }.into());
        }
        self.executor.state_tensor(slot, tensor)
    }

    /// Sets the states of slots to zero.
    ///
    /// # Errors
    /// There is no such slot, or the device fails.
    pub fn reset(&mut self, slots: Range<usize>) -> Result<(), RuntimeError> {
        if slots.is_empty() {
            return Ok(());
        }
        self.check_slot(slots.end - 1)?;
        self.executor.reset(slots.clone())?;
        self.invalidated.retain(|slot| !slots.contains(slot));
        Ok(())
    }

    /// Makes room for that many sequences, whose states are zero; returns how many there are then: as many as before
    /// within a memory budget, or where the device cannot bind so many states.
    ///
    /// # Errors
    /// The device has no memory left.
    pub fn grow(&mut self, slots: usize) -> Result<usize, RuntimeError> {
        self.executor.grow(slots)
    }

    /// How many rows of logits one pass can give.
    pub fn max_outputs(&self) -> usize {
        self.executor.max_outputs()
    }

    /// Another engine on the same weights and kernels, with one slot, which is zero.
    ///
    /// # Errors
    /// The device has no memory left.
    pub fn fork(&self) -> Result<Engine, RuntimeError> {
        Ok(Engine::new(self.executor.fork()?, self.chunk))
    }

    /// Overwrites a slot's state.
    ///
    /// # Errors
    /// There is no such slot, the state is not of this model, or the device fails.
    pub fn set_state(&mut self, slot: usize, state: &StateData) -> Result<(), RuntimeError> {
        self.check_slot(slot)?;
        self.executor.set_state(slot, state)?;
        self.invalidated.remove(&slot);
        Ok(())
    }

    fn check_slot(&self, slot: usize) -> Result<(), BatchError> {
        let slots = self.slots();
        if slot < slots { Ok(()) } else { Err(BatchError::Slot { sequence: 0, slot, slots }) }
    }
}
