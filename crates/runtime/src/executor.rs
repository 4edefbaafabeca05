//! What runs batches: a GPU or, as the definition of right, the CPU.

use crate::report::LoadReport;
use crate::{Batch, GpuExecutor, RuntimeError};
use wgoose_graph::{ModelShape, State};

/// The recurrent state of one sequence: every piece with its floats.
#[derive(Clone, Debug, PartialEq)]
pub struct StateData(pub Vec<(State, Vec<f32>)>);

impl StateData {
    /// The state before the first token.
    pub fn zero(shape: &ModelShape) -> Self {
        StateData(State::all(shape).map(|s| (s, vec![0.0; s.len(shape)])).collect())
    }

    /// Checks that it has exactly the pieces that a model of that shape has.
    ///
    /// # Errors
    /// The piece that is missing or of another size.
    pub fn check(&self, shape: &ModelShape) -> Result<(), RuntimeError> {
        for state in State::all(shape) {
            let got = self.0.iter().find(|(s, _)| *s == state).map_or(0, |(_, data)| data.len());
            let want = state.len(shape);
            if got != want {
                return Err(RuntimeError::StateSize { tensor: state.to_string(), got, want });
            }
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

    /// Runs a batch; returns the logits of its outputs, `[R, V]` row major.
    ///
    /// # Errors
    /// No kernel serves an op, or the device fails.
    fn run(&mut self, batch: &Batch) -> Result<Vec<f32>, RuntimeError>;

    /// Copies a slot's state out.
    ///
    /// # Errors
    /// The device fails.
    fn state(&mut self, slot: usize) -> Result<StateData, RuntimeError>;

    /// Overwrites a slot's state.
    ///
    /// # Errors
    /// The state is not of this model, or the device fails.
    fn set_state(&mut self, slot: usize, state: &StateData) -> Result<(), RuntimeError>;

    /// Itself, where it can choose tokens on its device.
    fn decoder(&mut self) -> Option<&mut GpuExecutor> {
        None
    }

    /// How many rows of logits one pass can give.
    fn max_outputs(&self) -> usize;

    /// What loading has taken so far.
    fn report(&self) -> LoadReport;
}
