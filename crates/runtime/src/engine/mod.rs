//! The engine: sequences of any length in, split into passes of the plan's chunk size.

mod hidden;
mod not_finite;
mod trace;

pub use not_finite::NotFinite;

use crate::batch::check_sequences;
use crate::decode::{Ahead, ChosenToken, Continuation, DecodeError, DecodeReport, OnTokens, Start};
use crate::report::LoadReport;
use crate::{
    Batch, BatchError, CpuExecutor, Device, Executor, GpuExecutor, Outputs, Padded, RuntimeError, Sequence, StateData,
};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use wgoose_graph::{BatchShape, ModelShape, State, Target};
use wgoose_kernels::{Catalogue, Plan};
use wgoose_loader::Model;

/// Chunk of the CPU executor; it only bounds memory.
const CPU_CHUNK: usize = 128;

/// A part of a sequence that one pass reads, with the index of the sequence.
type Piece<'a> = (usize, Sequence<'a>);

/// What a call has read.
struct Forwarded {
    /// For each sequence, its rows of logits.
    rows: Vec<Vec<f32>>,
    /// What was run.
    ran: PassesRun,
}

/// The passes of a call that were run.
struct PassesRun {
    /// The tensors of states asked for.
    states: Vec<Vec<f32>>,
    /// How many passes there were.
    passes: usize,
    /// How many tokens they read.
    tokens: usize,
}

/// Is told between two passes how many tokens those that have begun read; a break ends the call after them.
pub type OnPass<'a> = &'a mut dyn FnMut(usize) -> ControlFlow<()>;

/// Runs sequences on a GPU or on the CPU.
pub struct Engine {
    executor: Box<dyn Executor>,
    chunk: usize,
    /// Slots whose sequences were in a call that failed half way, or that left out layers: their states are those of no
    /// text.
    invalidated: BTreeSet<usize>,
    /// Whose last logits stay on the device.
    kept: Option<usize>,
}

impl Engine {
    /// Any executor; passes have at most `chunk` tokens, at least 1.
    pub fn new(executor: Box<dyn Executor>, chunk: usize) -> Self {
        Engine { executor, chunk: chunk.max(1), invalidated: BTreeSet::new(), kept: None }
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
    /// passes in the order given, a long one over several; the device does not wait for the host between two.
    ///
    /// # Errors
    /// A sequence that cannot be run (nothing has been run then), or the device or the file fails: the states of the
    /// sequences are invalidated then, and refused until they are set again.
    pub fn forward(&mut self, sequences: &[Sequence<'_>]) -> Result<Vec<Vec<f32>>, RuntimeError> {
        Ok(self.forward_passes(sequences, &[], &mut |_| ControlFlow::Continue(()))?.rows)
    }

    /// As [`Engine::forward`] for one sequence, which `on_pass` may end between two passes. Returns the logits asked
    /// for of what was read, and how many tokens that is: those of all passes that had begun.
    ///
    /// # Errors
    /// As [`Engine::forward`].
    pub fn forward_part(
        &mut self,
        sequence: Sequence<'_>,
        on_pass: OnPass<'_>,
    ) -> Result<(Vec<f32>, usize), RuntimeError> {
        let mut read = self.forward_passes(&[sequence], &[], on_pass)?;
        Ok((read.rows.pop().unwrap_or_default(), read.ran.tokens))
    }

    /// As [`Engine::forward_part`], where generation follows: the logits after the last token stay on the device, and
    /// [`Start::Kept`] begins with them. Returns how many tokens were read; when it returns, the device may not be
    /// done.
    ///
    /// # Errors
    /// As [`Engine::forward`]; [`DecodeError::Unsupported`] unless [`Engine::can_decode`].
    pub fn read(&mut self, slot: usize, tokens: &[u32], on_pass: OnPass<'_>) -> Result<usize, RuntimeError> {
        if !self.can_decode() {
            return Err(DecodeError::Unsupported.into());
        }
        let sequences = [Sequence { slot, tokens, outputs: Outputs::Last }];
        self.check_logits(&sequences)?;
        self.kept = None;
        let passes = divide(&sequences, self.chunk, 1);
        let ran = self.run_each(&sequences, &passes, Target::Logits, true, &[], on_pass, &mut |_, _| {})?;
        self.kept = Some(slot).filter(|_| ran.passes == passes.len());
        Ok(ran.tokens)
    }

    /// Reads tokens in a slot; returns its state after them. No logits are computed, and the state is on its way back
    /// before the host knows that the last pass is done.
    ///
    /// # Errors
    /// As [`Engine::forward`].
    pub fn state_after(&mut self, slot: usize, tokens: &[u32]) -> Result<StateData, RuntimeError> {
        let wanted: Vec<(usize, State)> = State::all(self.shape()).map(|tensor| (slot, tensor)).collect();
        let sequence = Sequence { slot, tokens, outputs: Outputs::None };
        let read = self.forward_passes(&[sequence], &wanted, &mut |_| ControlFlow::Continue(()))?;
        Ok(StateData(wanted.into_iter().map(|(_, tensor)| tensor).zip(read.ran.states).collect()))
    }

    fn forward_passes(
        &mut self,
        sequences: &[Sequence<'_>],
        states: &[(usize, State)],
        on_pass: OnPass<'_>,
    ) -> Result<Forwarded, RuntimeError> {
        self.check_logits(sequences)?;
        let passes = divide(sequences, self.chunk, self.executor.max_outputs());
        let mut rows = vec![Vec::new(); sequences.len()];
        let ran = self.run_each(sequences, &passes, Target::Logits, false, states, on_pass, &mut |i, own| {
            append(&mut rows[i], own);
        })?;
        Ok(Forwarded { rows, ran })
    }

    /// Runs passes until `on_pass` breaks between two, the result of the last of which may stay on the device, then
    /// copies tensors of states out. `on_rows` is given the result rows of each piece, with its sequence's index. After
    /// a failure the states of all sequences of the call are invalidated.
    fn run_each(
        &mut self,
        sequences: &[Sequence<'_>],
        passes: &[Vec<Piece<'_>>],
        target: Target,
        stays: bool,
        states: &[(usize, State)],
        on_pass: OnPass<'_>,
        on_rows: &mut dyn FnMut(usize, Vec<f32>),
    ) -> Result<PassesRun, RuntimeError> {
        let cols = target.cols(self.shape()) as usize;
        let batch = |(i, pass): (usize, &Vec<Piece<'_>>)| {
            let stays = stays && i + 1 == passes.len();
            Ok(Batch { stays, ..self.pack(pass)?.to(target) })
        };
        let batches = passes.iter().enumerate().map(batch);
        let mut batches = batches.collect::<Result<Vec<Batch>, RuntimeError>>()?.into_iter();
        let mut ran = PassesRun { states: Vec::new(), passes: 0, tokens: 0 };
        let mut batches = std::iter::from_fn(|| {
            let batch = batches.next().filter(|_| ran.passes == 0 || on_pass(ran.tokens).is_continue())?;
            ran.passes += 1;
            ran.tokens += batch.tokens.len();
            Some(batch)
        });
        let mut results = passes.iter();
        let run = self.executor.run_each(&mut batches, states, &mut |result| {
            let pieces = results.next().map_or(&[][..], Vec::as_slice);
            if let [(i, _)] = pieces {
                return on_rows(*i, result);
            }
            let mut rest = &result[..];
            let parts = pieces.iter().map(|(i, piece)| {
                let rows = match target {
                    Target::HiddenSum(_) => 1,
                    _ => piece.outputs.rows(piece.tokens.len()),
                };
                let (own, others) = rest.split_at(rows * cols);
                rest = others;
                (*i, own)
            });
            let parts: Vec<(usize, &[f32])> = parts.collect();
            // Many rows of logits are megabytes of new memory.
            let parts: Vec<(usize, Vec<f32>)> = parts.into_par_iter().map(|(i, own)| (i, own.to_vec())).collect();
            parts.into_iter().for_each(|(i, own)| on_rows(i, own));
        });
        match run {
            Ok(states) => Ok(PassesRun { states, ..ran }),
            Err(why) => {
                self.invalidated.extend(sequences.iter().map(|s| s.slot));
                Err(why)
            }
        }
    }

    /// The batch of a pass.
    fn pack(&self, pass: &[Piece<'_>]) -> Result<Batch, BatchError> {
        let sequences: Vec<Sequence<'_>> = pass.iter().map(|(_, piece)| *piece).collect();
        Batch::pack(&sequences, self.shape().vocab, self.slots())
    }

    /// Refuses sequences that cannot be run.
    fn check(&self, sequences: &[Sequence<'_>]) -> Result<(), RuntimeError> {
        check_sequences(sequences, self.shape().vocab, self.slots())?;
        let invalidated = |s: &Sequence<'_>| self.invalidated.contains(&s.slot);
        match sequences.iter().position(invalidated) {
            Some(sequence) => Err(BatchError::Invalidated { sequence, slot: sequences[sequence].slot }.into()),
            None => Ok(()),
        }
    }

    /// As [`Engine::check`], of passes that end in logits.
    fn check_logits(&self, sequences: &[Sequence<'_>]) -> Result<(), RuntimeError> {
        match self.shape().output_head {
            true => self.check(sequences),
            false => Err(BatchError::NoOutputHead.into()),
        }
    }

    /// Whether tokens can be chosen where the model runs, see [`Engine::decode`].
    pub fn can_decode(&mut self) -> bool {
        self.executor.decoder().is_some()
    }

    /// Continues sequences with tokens chosen on the device, a token each a round, up to `in_flight` rounds ahead of
    /// the ids that come back. `on_tokens` is given the tokens of a round in the order of the sequences, `None` for
    /// those that ended before; breaking ends the call for all of them.
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
        on_tokens: OnTokens<'_>,
    ) -> Result<DecodeReport, RuntimeError> {
        self.decode_rows(start, sequences, &[], Ahead::Breakable(in_flight), on_tokens)
    }

    /// The same for a caller that never breaks: what would take back the steps that ran ahead costs nothing then.
    ///
    /// # Errors
    /// As [`Engine::decode`].
    pub fn decode_unbroken(
        &mut self,
        start: Start<'_>,
        sequences: &[Continuation<'_>],
        in_flight: usize,
        on_tokens: &mut dyn FnMut(&[Option<ChosenToken<'_>>]),
    ) -> Result<DecodeReport, RuntimeError> {
        let on_tokens: OnTokens<'_> = &mut |chosen| {
            on_tokens(chosen);
            ControlFlow::Continue(())
        };
        self.decode_rows(start, sequences, &[], Ahead::Unbroken(in_flight), on_tokens)
    }

    /// One round of [`Engine::decode`] from a token each, in one pass with the prefill of other sequences, of which no
    /// logits are computed: weights are read once for all of them.
    ///
    /// # Errors
    /// As [`Engine::decode`] and [`Engine::forward`].
    pub fn decode_beside(
        &mut self,
        tokens: &[u32],
        sequences: &[Continuation<'_>],
        prefilled: &[Sequence<'_>],
        on_tokens: &mut dyn FnMut(&[Option<ChosenToken<'_>>]),
    ) -> Result<DecodeReport, RuntimeError> {
        self.check(prefilled)?;
        let once: Vec<Continuation<'_>> = sequences
            .iter()
            .map(|sequence| Continuation { max_tokens: sequence.max_tokens.min(1), ..*sequence })
            .collect();
        let on_tokens: OnTokens<'_> = &mut |chosen| {
            on_tokens(chosen);
            ControlFlow::Continue(())
        };
        self.decode_rows(Start::Tokens(tokens), &once, prefilled, Ahead::Unbroken(1), on_tokens)
    }

    fn decode_rows(
        &mut self,
        start: Start<'_>,
        sequences: &[Continuation<'_>],
        prefilled: &[Sequence<'_>],
        ahead: Ahead,
        on_tokens: OnTokens<'_>,
    ) -> Result<DecodeReport, RuntimeError> {
        if !self.shape().output_head {
            return Err(BatchError::NoOutputHead.into());
        }
        let invalidated = |s: &Continuation<'_>| self.invalidated.contains(&s.slot);
        if let Some(sequence) = sequences.iter().position(invalidated) {
            return Err(BatchError::Invalidated { sequence, slot: sequences[sequence].slot }.into());
        }
        if matches!(start, Start::Kept) && (sequences.len() != 1 || self.kept != Some(sequences[0].slot)) {
            return Err(DecodeError::NotKept.into());
        }
        let decoder = self.executor.decoder().ok_or(DecodeError::Unsupported)?;
        let batch = decoder.check_decode(start, sequences, prefilled)?;
        decoder.decode(batch, start, sequences, ahead, on_tokens).inspect_err(|_| {
            let slots = sequences.iter().map(|s| s.slot).chain(prefilled.iter().map(|s| s.slot));
            self.invalidated.extend(slots);
        })
    }

    /// From now on passes may be padded to fewer different shapes, see [`Padded`]: for batches whose passes all
    /// differ. Those that are expected are prepared in the background, the first ones first.
    ///
    /// # Errors
    /// No pass can be prepared.
    pub fn pad_passes(&mut self, expected: &[Padded]) -> Result<(), RuntimeError> {
        let shape = |padded: &Padded| BatchShape {
            tokens: padded.tokens as u32,
            segments: padded.segments as u32,
            outputs: padded.outputs as u32,
        };
        self.executor.pad_passes(&expected.iter().map(shape).collect::<Vec<_>>())
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
    /// There is no such slot, the model has no such layer, or the device fails. A state that was invalidated because
    /// layers were left out may be asked for tensors of the others.
    pub fn state_tensor(&mut self, slot: usize, tensor: State) -> Result<Vec<f32>, RuntimeError> {
        Ok(self.state_tensors(&[(slot, tensor)])?.pop().unwrap_or_default())
    }

    /// Copies tensors of states out, each of a slot, all at once.
    ///
    /// # Errors
    /// As [`Engine::state_tensor`].
    pub fn state_tensors(&mut self, wanted: &[(usize, State)]) -> Result<Vec<Vec<f32>>, RuntimeError> {
        let layers = self.shape().layers;
        for (slot, tensor) in wanted {
            self.check_slot(*slot)?;
            if tensor.layer() >= layers {
                return Err(BatchError::Layer { layer: tensor.layer(), layers }.into());
            }
        }
        self.executor.run_each(&mut std::iter::empty(), wanted, &mut |_| {})
    }

    /// Waits until the device has done all that it was given: what is timed from then on finds it idle.
    ///
    /// # Errors
    /// The device fails.
    pub fn settle(&mut self) -> Result<(), RuntimeError> {
        self.state_tensor(0, State::AttShift(0)).map(drop)
    }

    /// Bytes of the state of a sequence, as it is stored.
    pub fn state_bytes(&self) -> u64 {
        self.executor.state_bytes()
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

    /// Another engine with the same weights and chunk, and that many slots, which are zero, that computes in f32 by the
    /// default kernels of its device: what coarser plans are held against.
    ///
    /// # Errors
    /// The device has no memory left.
    pub fn in_f32(&self, slots: usize) -> Result<Engine, RuntimeError> {
        Ok(Engine::new(self.executor.in_f32(slots)?, self.chunk))
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

/// Appends rows to what a sequence has.
fn append(rows: &mut Vec<f32>, own: Vec<f32>) {
    if rows.is_empty() {
        *rows = own;
    } else {
        rows.extend_from_slice(&own);
    }
}

/// Packs sequences into passes of at most `chunk` tokens and `most_outputs` rows of logits, in the order given; one
/// that does not fit into what is left of a pass goes on in the next.
fn divide<'a>(sequences: &[Sequence<'a>], chunk: usize, most_outputs: usize) -> Vec<Vec<Piece<'a>>> {
    let most_outputs = most_outputs.max(1);
    let (mut passes, mut pass) = (Vec::new(), Vec::new());
    let (mut room, mut output_room) = (chunk, most_outputs);
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
                passes.push(std::mem::take(&mut pass));
                (room, output_room) = (chunk, most_outputs);
            }
        }
    }
    passes.extend(Some(pass).filter(|pass| !pass.is_empty()));
    passes
}
