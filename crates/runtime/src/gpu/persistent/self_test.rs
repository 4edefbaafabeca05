//! The self-test of persistent kernels: they run beside one dispatch per op, on the spare state, and must give its logits. Once a
//! device and its driver have passed it with these kernels, that is kept on disk.

use super::{Failure, PersistentStep, TIMED_OUT_BYTE};
use crate::gpu::GpuExecutor;
use crate::gpu::step::Step;
use crate::pipelines::{Store, Verdict};
use crate::schedule::{BufferId, Recording};
use crate::timeline::Track;
use crate::{Batch, NotPersistent, Outputs, RuntimeError, Sequence};
use wgoose_graph::State;
use wgoose_kernels::KernelHash;

/// Tokens that both read.
const TOKENS: u32 = 4;

/// Largest distance of logits, relative to their root mean square: compilers may round the sums of one of them otherwise.
const TOLERANCE: f64 = 1e-4;

pub(super) const DURING: &str = "trying a persistent kernel";

/// Identity of all kernels that a pass runs, in their order.
fn hash(recording: &Recording) -> KernelHash {
    let mut hasher = blake3::Hasher::new();
    for dispatch in &recording.dispatches {
        hasher.update(&recording.kernels[dispatch.kernel].hash.0);
    }
    let mut hash = KernelHash([0; 16]);
    hash.0.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    hash
}

impl GpuExecutor {
    /// Runs both over a few tokens and compares their logits, unless that went well before.
    ///
    /// # Errors
    /// They disagree, it could not be tried, or the device fails.
    pub(super) fn self_test(&self, step: &Step, persistent: &PersistentStep) -> Result<(), Failure> {
        let device = &self.shared.device;
        let kept = device.cache().map(|cache| Store::checks(cache, device.fingerprint()));
        let tried = hash(&persistent.step.recording);
        let verdict = kept.as_ref().and_then(|kept| Verdict::from_bytes(&kept.load(&tried)?));
        if verdict == Some(Verdict::Right) {
            return Ok(());
        }
        let _span = device.timeline().span(Track::Submit, DURING);
        self.compare_logits(step, persistent)?;
        // A failure may be another program's, which has taken multiprocessors.
        if let Some(kept) = kept {
            kept.save(&tried, &Verdict::Right.to_bytes());
        }
        Ok(())
    }

    fn compare_logits(&self, step: &Step, persistent: &PersistentStep) -> Result<(), Failure> {
        if !self.states.has_spare {
            return Err(NotPersistent::NoSpareState.into());
        }
        let per_op = self.logits_of(step, None)?;
        let fused = self.logits_of(step, Some(persistent))?;
        if self.timed_out()? {
            self.reset_grid_barrier();
            return Err(NotPersistent::TimedOut.into());
        }
        let square = |v: f32| f64::from(v) * f64::from(v);
        let rms = (per_op.iter().map(|v| square(*v)).sum::<f64>() / per_op.len() as f64).sqrt();
        let off = (per_op.iter().zip(&fused).map(|(a, b)| square(a - b)).sum::<f64>() / per_op.len() as f64).sqrt();
        // Not `>`: NaN is no agreement.
        match off <= TOLERANCE * rms {
            true => Ok(()),
            false => Err(NotPersistent::Differs { relative: off / rms }.into()),
        }
    }

    /// Logits after a few tokens from the empty state, in the spare slot.
    fn logits_of(&self, step: &Step, persistent: Option<&PersistentStep>) -> Result<Vec<f32>, RuntimeError> {
        let model = self.shared.model.shape();
        let Some(output) = step.recording.output else { return Ok(Vec::new()) };
        let mut encoder = self.shared.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for state in State::all(model) {
            let place = self.states.place(state);
            encoder.clear_buffer(place.buffer, place.at(self.states.slots), Some(place.slot_bytes));
        }
        // Nor may it find what the other one has left.
        let slots = self.buffers.iter().filter(|(id, _)| matches!(id, BufferId::Slot(_)));
        slots.for_each(|(_, slot)| encoder.clear_buffer(slot, 0, None));
        self.shared.device.queue.submit([encoder.finish()]);
        for token in 0..TOKENS {
            let tokens = [token * 7 % model.vocab];
            let rows = [Sequence { slot: self.states.slots, tokens: &tokens, outputs: Outputs::Last }];
            self.write_tables(&Batch::pack(&rows, model.vocab, self.states.slots + 1)?);
            let mut encoder =
                self.shared.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                match persistent {
                    Some(persistent) => persistent.dispatch(&mut pass),
                    None => step.dispatch(0..step.groups.len(), &mut pass),
                }
            }
            self.shared.device.queue.submit([encoder.finish()]);
        }
        let (logits, bytes) = (&self.buffers[BufferId::Slot(output)], u64::from(model.vocab) * 4);
        let logits = self.shared.device.read(logits, 0, bytes, DURING)?;
        Ok(bytemuck::pod_collect_to_vec(&logits))
    }

    /// Whether workgroups timed out since the counters were cleared.
    ///
    /// # Errors
    /// The device fails.
    pub(in crate::gpu) fn timed_out(&self) -> Result<bool, RuntimeError> {
        let barrier = &self.buffers[BufferId::GridBarrier];
        let word = self.shared.device.read(barrier, TIMED_OUT_BYTE as u64, 4, "running a persistent kernel")?;
        Ok(word.iter().any(|byte| *byte != 0))
    }
}
