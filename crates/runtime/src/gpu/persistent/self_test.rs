//! The self-test of persistent kernels: they run beside one dispatch per op, on the spare state, and must give its logits.

use super::{PersistentStep, TIMED_OUT, TIMED_OUT_BYTE};
use crate::batch::PassShape;
use crate::gpu::GpuExecutor;
use crate::{Batch, Outputs, RuntimeError, Sequence};
use wgoose_graph::{BatchShape, State};

/// Tokens that both read.
const TOKENS: u32 = 4;

/// Largest distance of logits, relative to their root mean square: compilers may round the sums of one of them otherwise.
const TOLERANCE: f64 = 1e-4;

impl GpuExecutor {
    /// Runs both over a few tokens and compares their logits.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn self_test(
        &self,
        shape: &BatchShape,
        persistent: &PersistentStep,
    ) -> Result<Result<(), String>, RuntimeError> {
        if !self.has_spare {
            return Ok(Err("there is no state to try it on".to_owned()));
        }
        let per_op = self.logits_of(shape, None)?;
        let fused = self.logits_of(shape, Some(persistent))?;
        if self.timed_out()? {
            self.reset_grid_barrier();
            return Ok(Err(TIMED_OUT.to_owned()));
        }
        let square = |v: f32| f64::from(v) * f64::from(v);
        let rms = (per_op.iter().map(|v| square(*v)).sum::<f64>() / per_op.len() as f64).sqrt();
        let off = (per_op.iter().zip(&fused).map(|(a, b)| square(a - b)).sum::<f64>() / per_op.len() as f64).sqrt();
        // Not `>`: NaN is no agreement.
        match off <= TOLERANCE * rms {
            true => Ok(Ok(())),
            false => Ok(Err(format!("its logits are {:.1e} from those of one dispatch per op", off / rms))),
        }
    }

    /// Logits after a few tokens from the empty state, in the spare slot.
    fn logits_of(&self, shape: &BatchShape, persistent: Option<&PersistentStep>) -> Result<Vec<f32>, RuntimeError> {
        let model = self.model.shape();
        let Some(step) = self.steps.get(&PassShape::from(*shape)) else { return Ok(Vec::new()) };
        let Some(output) = step.recording.output else { return Ok(Vec::new()) };
        let mut encoder = self.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for state in State::all(model) {
            let place = self.states.place(state);
            encoder.clear_buffer(&place.buffer, place.at(self.slots), Some(place.slot_bytes));
        }
        // Nor may it find what the other one has left.
        self.arena.iter().for_each(|slot| encoder.clear_buffer(slot, 0, None));
        self.device.queue.submit([encoder.finish()]);
        for token in 0..TOKENS {
            let tokens = [token * 7 % model.vocab];
            let rows = [Sequence { slot: self.slots, tokens: &tokens, outputs: Outputs::Last }];
            self.write_tables(&Batch::pack(&rows, model.vocab, self.slots + 1)?);
            let mut encoder = self.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                match persistent {
                    Some(persistent) => persistent.dispatch(&mut pass),
                    None => step.dispatch(0..step.groups.len(), &mut pass),
                }
            }
            self.device.queue.submit([encoder.finish()]);
        }
        let logits = self.device.read(&self.arena[output], 0, u64::from(model.vocab) * 4)?;
        Ok(bytemuck::pod_collect_to_vec(&logits))
    }

    /// Whether workgroups timed out since the counters were cleared.
    ///
    /// # Errors
    /// The device fails.
    pub(in crate::gpu) fn timed_out(&self) -> Result<bool, RuntimeError> {
        Ok(self.device.read(&self.grid_barrier, TIMED_OUT_BYTE as u64, 4)?.iter().any(|byte| *byte != 0))
    }
}
