//! A single pass with persistent kernels. The states are copied before it, so that it can be run again.

use super::{BARRIER_BYTES, TIMED_OUT_BYTE};
use crate::gpu::GpuExecutor;
use crate::gpu::decode::Snapshot;
use crate::schedule::BufferId;
use crate::{Batch, RuntimeError};
use wgoose_graph::Target;

impl GpuExecutor {
    /// The logits of a batch; `None` if it has no persistent kernels, or if they timed out: then nothing has changed.
    ///
    /// # Errors
    /// What a pass can fail with.
    pub(in crate::gpu) fn run_persistent(&mut self, batch: &Batch) -> Result<Option<Vec<f32>>, RuntimeError> {
        let shape = batch.shape();
        if self.planner.plan.persistent.is_none()
            || shape.tokens != 1
            || batch.target != Target::Logits
            || !self.can_decode()
        {
            return Ok(None);
        }
        // A budget has no room for the copy.
        if self.shared.weights.lock().capacity().is_some() {
            return Ok(None);
        }
        self.prepare(&shape)?;
        self.ensure_persistent(&shape)?;
        let (Some(step), Some(persistent)) = (self.steps.chains.get(&batch.pass()), self.steps.persistent.step(&shape))
        else {
            return Ok(None);
        };
        let Some(output) = step.recording.output else { return Ok(None) };
        let snapshot = match self.kept.snapshot.take() {
            Some(snapshot) => snapshot,
            None => Snapshot::new(self, 1),
        };
        let slots = [batch.segments[0].slot as usize];
        let bytes = if batch.stays { 0 } else { u64::from(self.shared.model.shape().vocab) * 4 };
        self.write_tables(batch);
        let mut encoder = self.shared.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        snapshot.save(self, &slots, &mut encoder);
        persistent.dispatch(&mut encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()));
        if batch.stays {
            self.keep_logits(output, &mut encoder);
        }
        let staging = self.shared.device.staging(bytes + BARRIER_BYTES);
        if bytes > 0 {
            encoder.copy_buffer_to_buffer(&self.buffers[BufferId::Slot(output)], 0, &staging, 0, bytes);
        }
        encoder.copy_buffer_to_buffer(&self.buffers[BufferId::GridBarrier], 0, &staging, bytes, BARRIER_BYTES);
        self.shared.device.queue.submit([encoder.finish()]);
        let data = self.shared.device.read_staging(&staging, bytes + BARRIER_BYTES, "running a persistent kernel")?;
        let (logits, barrier) = data.split_at(bytes as usize);
        let timed_out = barrier[TIMED_OUT_BYTE..TIMED_OUT_BYTE + 4].iter().any(|byte| *byte != 0);
        if timed_out {
            self.reset_grid_barrier();
            let mut encoder =
                self.shared.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            snapshot.restore(self, &slots, &mut encoder);
            self.shared.device.queue.submit([encoder.finish()]);
            self.disable_persistent(&shape);
        }
        self.kept.snapshot = Some(snapshot);
        Ok((!timed_out).then(|| bytemuck::pod_collect_to_vec(logits)))
    }
}
