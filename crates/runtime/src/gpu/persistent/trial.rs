//! Whether the persistent form works here: it is run beside the chain of dispatches, on a state that nobody needs.

use super::{GAVE_UP, PersistentStep};
use crate::batch::PassShape;
use crate::gpu::GpuExecutor;
use crate::{Batch, Outputs, RuntimeError, Sequence};
use wgoose_graph::{BatchShape, State};

/// Tokens that both forms read.
const TOKENS: u32 = 4;

/// Largest distance of logits, relative to their root mean square: compilers may round one form's sums otherwise.
const TOLERANCE: f64 = 1e-4;

impl GpuExecutor {
    /// Runs both forms over a few tokens and compares their logits.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn trial(
        &self,
        shape: &BatchShape,
        persistent: &PersistentStep,
    ) -> Result<Result<(), String>, RuntimeError> {
        if !self.has_spare {
            return Ok(Err("there is no state to try it on".to_owned()));
        }
        let chain = self.try_form(shape, None)?;
        let merged = self.try_form(shape, Some(persistent))?;
        if self.gave_up()? {
            self.reset_meeting();
            return Ok(Err("its workgroups did not all run at once".to_owned()));
        }
        let square = |v: f32| f64::from(v) * f64::from(v);
        let rms = (chain.iter().map(|v| square(*v)).sum::<f64>() / chain.len() as f64).sqrt();
        let off = (chain.iter().zip(&merged).map(|(a, b)| square(a - b)).sum::<f64>() / chain.len() as f64).sqrt();
        // Not `>`: NaN is no agreement.
        match off <= TOLERANCE * rms {
            true => Ok(Ok(())),
            false => Ok(Err(format!("its logits are {:.1e} from those of the chain of dispatches", off / rms))),
        }
    }

    /// Logits after a few tokens from the empty state, in the spare slot.
    fn try_form(&self, shape: &BatchShape, form: Option<&PersistentStep>) -> Result<Vec<f32>, RuntimeError> {
        let model = self.model.shape();
        let Some(step) = self.steps.get(&PassShape::from(*shape)) else { return Ok(Vec::new()) };
        let Some(output) = step.recording.output else { return Ok(Vec::new()) };
        let mut encoder = self.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for state in State::all(model) {
            let (place, bytes) = (self.states.place(state), state.len(model) as u64 * 4);
            encoder.clear_buffer(&place.buffer, place.offset + self.slots as u64 * bytes, Some(bytes));
        }
        // Nor may it find what the other form has left.
        self.arena.iter().for_each(|slot| encoder.clear_buffer(slot, 0, None));
        self.device.queue.submit([encoder.finish()]);
        for token in 0..TOKENS {
            let tokens = [token * 7 % model.vocab];
            let rows = [Sequence { slot: self.slots, tokens: &tokens, outputs: Outputs::Last }];
            self.write_tables(&Batch::pack(&rows, model.vocab, self.slots + 1)?);
            let mut encoder = self.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                match form {
                    Some(form) => form.dispatch(&mut pass),
                    None => step.dispatch(0..step.groups.len(), &mut pass),
                }
            }
            self.device.queue.submit([encoder.finish()]);
        }
        let logits = self.device.read(&self.arena[output], 0, u64::from(model.vocab) * 4)?;
        Ok(bytemuck::pod_collect_to_vec(&logits))
    }

    /// Whether workgroups waited in vain since the counters were cleared.
    ///
    /// # Errors
    /// The device fails.
    pub(in crate::gpu) fn gave_up(&self) -> Result<bool, RuntimeError> {
        Ok(self.device.read(&self.meeting, GAVE_UP as u64, 4)?.iter().any(|byte| *byte != 0))
    }
}
