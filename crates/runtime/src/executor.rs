//! Executors run batches: a GPU, or the CPU, whose results define what is right.

use crate::decode::Ahead;
use crate::report::LoadReport;
use crate::{Batch, Continuation, DecodeReport, OnTokens, RuntimeError, Sequence, Start, Traced};
use std::ops::Range;
use wgoose_graph::{BatchShape, ModelShape, State};

/// The recurrent state of one sequence: every tensor with its floats.
#[derive(Clone, Debug, PartialEq)]
pub struct StateData(pub Vec<(State, Vec<f32>)>);

impl StateData {
    /// The state before the first token.
    pub fn zero(shape: &ModelShape) -> Self {
        StateData(State::all(shape).map(|s| (s, vec![0.0; s.len(shape)])).collect())
    }

    /// Whether it is that before the first token, to the bit.
    pub fn is_zero(&self) -> bool {
        self.0.iter().flat_map(|(_, data)| data).all(|x| x.to_bits() == 0)
    }

    /// Checks that it has exactly the tensors that a model of that shape has.
    ///
    /// # Errors
    /// The tensor that is missing or of another size.
    pub fn check(&self, shape: &ModelShape) -> Result<(), RuntimeError> {
        for state in State::all(shape) {
            let got = self.0.iter().find(|(s, _)| *s == state).map_or(0, |(_, data)| data.len());
            let want = state.len(shape);
            if got != want {
                return Err(RuntimeError::StateSize { tensor: state.to_string(), got, want });
            }
        }
        if let Some((twice, data)) = self.0.get(State::all(shape).count()) {
            return Err(RuntimeError::StateSize { tensor: twice.to_string(), got: data.len(), want: 0 });
        }
        if let Some((extra, data)) = self.0.iter().find(|(s, _)| !State::all(shape).any(|known| known == *s)) {
            return Err(RuntimeError::StateSize { tensor: extra.to_string(), got: data.len(), want: 0 });
        }
        Ok(())
    }
}

/// Runs batches over a fixed number of state slots.
pub trait Executor: Send {
    /// Sizes of the model.
    fn shape(&self) -> &ModelShape;

    /// How many sequences can have a state at once.
    fn slots(&self) -> usize;

    /// Runs a batch; returns what its target says, row major: `[R, V]` logits, `[R, C]` or `[S, C]` hidden states.
    ///
    /// # Errors
    /// The model has no such layer, no kernel serves an op, or the device fails.
    fn run(&mut self, batch: &Batch) -> Result<Vec<f32>, RuntimeError>;

    /// Runs batches in their order, and then copies tensors of states out: of these slots, as they are after the last
    /// one. `on_result` is given what each batch returns, in the same order. A device is given passes ahead of the
    /// results that come back, so that it does not wait for the host between them; so does `batches` run ahead of
    /// `on_result`.
    ///
    /// # Errors
    /// As [`Executor::run`]; then some of the batches were run.
    fn run_each(
        &mut self,
        batches: &mut dyn Iterator<Item = Batch>,
        states: &[(usize, State)],
        on_result: &mut dyn FnMut(Vec<f32>),
    ) -> Result<Vec<Vec<f32>>, RuntimeError> {
        for batch in batches {
            on_result(self.run(&batch)?);
        }
        states.iter().map(|(slot, tensor)| self.state_tensor(*slot, *tensor)).collect()
    }

    /// As [`Executor::run`], op by op: `on_value` is shown what each op made, in the order in which they run. Ops that
    /// only update state make nothing.
    ///
    /// # Errors
    /// As [`Executor::run`]; [`RuntimeError::Streamed`] where the weights do not all fit on the device.
    fn trace(&mut self, batch: &Batch, on_value: &mut dyn FnMut(&Traced<'_>)) -> Result<Vec<f32>, RuntimeError>;

    /// Copies one tensor of a slot's state out.
    ///
    /// # Errors
    /// The device fails.
    fn state_tensor(&mut self, slot: usize, tensor: State) -> Result<Vec<f32>, RuntimeError>;

    /// Copies a slot's state out.
    ///
    /// # Errors
    /// The device fails.
    fn state(&mut self, slot: usize) -> Result<StateData, RuntimeError> {
        let tensors: Vec<(usize, State)> = State::all(self.shape()).map(|tensor| (slot, tensor)).collect();
        let read = self.run_each(&mut std::iter::empty(), &tensors, &mut |_| {})?;
        Ok(StateData(tensors.into_iter().map(|(_, tensor)| tensor).zip(read).collect()))
    }

    /// Bytes of a slot's state, as it is stored.
    fn state_bytes(&self) -> u64 {
        self.shape().state_len() as u64 * 4
    }

    /// Overwrites a slot's state. Values that the executor stores as f16 are rounded to it; those that it gave out stay
    /// as they are.
    ///
    /// # Errors
    /// The state is not of this model, or the device fails.
    fn set_state(&mut self, slot: usize, state: &StateData) -> Result<(), RuntimeError>;

    /// Sets the states of slots to zero.
    ///
    /// # Errors
    /// The device fails.
    fn reset(&mut self, slots: Range<usize>) -> Result<(), RuntimeError>;

    /// Makes room for that many sequences, with states of zero; returns how many there are then. Within a memory
    /// budget, or where the device binds no more, that is as many as before.
    ///
    /// # Errors
    /// The device has no memory left.
    fn grow(&mut self, slots: usize) -> Result<usize, RuntimeError>;

    /// Another executor with one state of its own, which is zero, sharing what the first has of the model.
    ///
    /// # Errors
    /// The device has no memory left.
    fn fork(&self) -> Result<Box<dyn Executor>, RuntimeError>;

    /// Another executor with that many states, which are zero, that computes in f32 by the default kernels of its
    /// device.
    ///
    /// # Errors
    /// The device has no memory left.
    fn in_f32(&self, slots: usize) -> Result<Box<dyn Executor>, RuntimeError>;

    /// From now on may pad passes to fewer different shapes, each of which has to be prepared (see [`crate::bucket`]),
    /// and may begin to prepare those that are expected, the first ones first.
    ///
    /// # Errors
    /// No pass can be prepared.
    fn pad_passes(&mut self, _expected: &[BatchShape]) -> Result<(), RuntimeError> {
        Ok(())
    }

    /// Itself, where it can choose tokens on its device.
    fn decoder(&mut self) -> Option<&mut dyn Decoder> {
        None
    }

    /// How many rows of logits one pass can give.
    fn max_outputs(&self) -> usize;

    /// What loading has taken so far.
    fn report(&self) -> LoadReport;
}

/// Chooses tokens where the model runs.
pub trait Decoder {
    /// The batch of a step of these sequences, in which others are prefilled.
    ///
    /// # Errors
    /// Sequences or settings that make no sense.
    fn check_decode(
        &self,
        start: Start<'_>,
        sequences: &[Continuation<'_>],
        prefilled: &[Sequence<'_>],
    ) -> Result<Batch, RuntimeError>;

    /// Continues the sequences of a batch that was checked; see [`crate::Engine::decode`].
    ///
    /// # Errors
    /// Logits without a token to choose, or the device fails.
    fn decode(
        &mut self,
        batch: Batch,
        start: Start<'_>,
        sequences: &[Continuation<'_>],
        ahead: Ahead,
        on_tokens: OnTokens<'_>,
    ) -> Result<DecodeReport, RuntimeError>;
}
