//! A single pass in its persistent form. The states are copied before it, so that it can be run again.

use super::{GAVE_UP, MEETING};
use crate::gpu::decode::Snapshot;
use crate::gpu::{GpuExecutor, lock};
use crate::{Batch, RuntimeError};
use wgoose_graph::Target;

impl GpuExecutor {
    /// The logits of a batch; `None` if it has no persistent form, or if that failed: then nothing has changed.
    ///
    /// # Errors
    /// What a pass can fail with.
    pub(in crate::gpu) fn run_persistent(&mut self, batch: &Batch) -> Result<Option<Vec<f32>>, RuntimeError> {
        let shape = batch.shape();
        if self.plan.persistent.is_none() || shape.tokens != 1 || batch.target != Target::Logits || !self.can_decode() {
            return Ok(None);
        }
        // A budget has no room for the copy.
        if lock(&self.weights).capacity().is_some() {
            return Ok(None);
        }
        self.prepare(&shape)?;
        self.settle(&shape)?;
        let (Some(step), Some(persistent)) = (self.steps.get(&batch.pass()), self.persistent.step(&shape)) else {
            return Ok(None);
        };
        let Some(output) = step.recording.output else { return Ok(None) };
        let snapshot = match self.decoder.snapshot.take() {
            Some(snapshot) => snapshot,
            None => Snapshot::new(self, 1),
        };
        let slots = [batch.segments[2] as usize];
        let bytes = u64::from(self.model.shape().vocab) * 4;
        self.write_tables(batch);
        let mut encoder = self.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        snapshot.save(self, &slots, &mut encoder);
        persistent.dispatch(&mut encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()));
        let staging = self.device.staging(bytes + MEETING);
        encoder.copy_buffer_to_buffer(&self.arena[output], 0, &staging, 0, bytes);
        encoder.copy_buffer_to_buffer(&self.meeting, 0, &staging, bytes, MEETING);
        self.device.queue.submit([encoder.finish()]);
        let data = self.device.read_staging(&staging, bytes + MEETING)?;
        let (logits, meeting) = data.split_at(bytes as usize);
        let gave_up = meeting[GAVE_UP..GAVE_UP + 4].iter().any(|byte| *byte != 0);
        if gave_up {
            self.reset_meeting();
            let mut encoder = self.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            snapshot.restore(self, &slots, &mut encoder);
            self.device.queue.submit([encoder.finish()]);
            self.unsettle(&shape);
        }
        self.decoder.snapshot = Some(snapshot);
        Ok((!gave_up).then(|| bytemuck::pod_collect_to_vec(logits)))
    }
}
