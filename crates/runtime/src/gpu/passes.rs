//! Passes in a row: the next is encoded and submitted while the device computes the one before it.
//!
//! Passes share activations, tables and uniform blocks, and need no copies of them: the queue orders writes to tables
//! with the submissions around them, and the device runs passes in order. Results are copied to staging memory in the
//! submission of their pass and mapped there; only then does the host wait for it.

use super::GpuExecutor;
use crate::schedule::BufferId;
use crate::timeline::Track;
use crate::{Batch, RuntimeError};
use rayon::prelude::*;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::time::Instant;
use wgoose_graph::State;

/// Passes that are submitted before the oldest must be done: enough to hide encoding and read-back, few enough that a
/// caller who stops waits for little.
const PASSES_IN_FLIGHT: usize = 4;

/// Of a pass's groups one in so many is submitted before the others are encoded.
const AHEAD: usize = 8;

/// Most bytes of results in flight, unless they are those of one pass; most bytes of states copied at once.
const READ_BACK_BYTES: u64 = 64 << 20;

const DURING: &str = "running a pass";

/// A pass that the device may not have done yet.
struct Submitted {
    done: wgpu::SubmissionIndex,
    /// Tokens that it reads.
    tokens: usize,
    /// Where its result is copied to, and its bytes.
    result: Option<(wgpu::Buffer, u64)>,
    /// Whether its result stays on the device, where the next call finds it: nobody waits for it.
    stays: bool,
}

impl Submitted {
    fn bytes(&self) -> u64 {
        self.result.as_ref().map_or(0, |(_, bytes)| *bytes)
    }
}

impl GpuExecutor {
    /// See [`crate::Executor::run_each`]. When it returns, nothing is in flight but a pass whose result
    /// stays.
    pub(super) fn run_passes(
        &mut self,
        batches: &mut dyn Iterator<Item = Batch>,
        states: &[(usize, State)],
        on_result: &mut dyn FnMut(Vec<f32>),
    ) -> Result<Vec<Vec<f32>>, RuntimeError> {
        let result = self.submit_passes(batches, states, on_result);
        if result.is_err() {
            // The first error is the one to tell of; what comes back from later passes belongs to nobody.
            let _ = self.shared.device.wait(DURING);
            self.read_back.results.clear();
            self.read_back.states = None;
        }
        result
    }

    fn submit_passes(
        &mut self,
        batches: &mut dyn Iterator<Item = Batch>,
        states: &[(usize, State)],
        on_result: &mut dyn FnMut(Vec<f32>),
    ) -> Result<Vec<Vec<f32>>, RuntimeError> {
        let mut in_flight: VecDeque<Submitted> = VecDeque::new();
        for batch in batches {
            if let Some(result) = self.run_persistent(&batch)? {
                in_flight.drain(..).try_for_each(|pass| self.collect(pass, on_result))?;
                on_result(result);
                continue;
            }
            // A budget has room for one result.
            let most = if self.shared.weights.lock().capacity().is_some() { 0 } else { READ_BACK_BYTES };
            let bytes = if batch.stays { 0 } else { batch.result_len(self.shared.model.shape()) as u64 * 4 };
            let batch = self.padded(batch);
            while let Some(first) = in_flight.pop_front() {
                let pending = first.bytes() + in_flight.iter().map(Submitted::bytes).sum::<u64>();
                let has_room = bytes == 0 || pending == 0 || pending + bytes <= most;
                if in_flight.len() + 1 < PASSES_IN_FLIGHT && has_room {
                    in_flight.push_front(first);
                    break;
                }
                self.collect(first, on_result)?;
            }
            let is_idle = in_flight.is_empty();
            in_flight.push_back(self.submit_pass(&batch, bytes, is_idle)?);
        }
        let mut groups = self.state_groups(states).into_iter();
        let first = groups.next().map(|group| self.submit_states(group));
        in_flight.drain(..).try_for_each(|pass| self.collect(pass, on_result))?;
        let mut tensors = Vec::with_capacity(states.len());
        if let Some((group, copied)) = first {
            self.collect_states(group, copied, &mut tensors)?;
        }
        for group in groups {
            let (group, copied) = self.submit_states(group);
            self.collect_states(group, copied, &mut tensors)?;
        }
        Ok(tensors)
    }

    /// Encodes and submits a pass and the copy of its result. An idle device begins with the first layers while the
    /// others are encoded.
    fn submit_pass(&mut self, batch: &Batch, bytes: u64, is_idle: bool) -> Result<Submitted, RuntimeError> {
        let pass = batch.pass();
        let is_first = self.expect_decoding(batch)?;
        let mut step = self.open_step(&pass)?;
        if is_first {
            self.compile_expected();
        }
        let timeline = self.shared.device.timeline().clone();
        let span = timeline.span(Track::Submit, "pass");
        self.write_tables(batch);
        let mut encoder = self.shared.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let (is_warm, output) = (step.ready, step.recording.output);
        let encoded = match is_warm {
            true => {
                let (groups, mut first) = (step.groups.len(), 0);
                for cut in self.cuts(groups, is_idle) {
                    step.encode(first..cut, &mut encoder);
                    let rest =
                        self.shared.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
                    self.shared.device.queue.submit([std::mem::replace(&mut encoder, rest).finish()]);
                    first = cut;
                }
                step.encode(first..groups, &mut encoder);
                Ok(())
            }
            false => self.cold_start(&mut step, true),
        };
        self.keep_step(pass, encoded.map(|()| step))?;
        if let Some(output) = output.filter(|_| batch.stays) {
            self.keep_logits(output, &mut encoder);
        }
        let result = output.filter(|_| bytes > 0).map(|output| {
            let staging = self.take_staging(bytes);
            encoder.copy_buffer_to_buffer(&self.buffers[BufferId::Slot(output)], 0, &staging, 0, bytes);
            (staging, bytes)
        });
        let done = self.shared.device.queue.submit([encoder.finish()]);
        if let Some((staging, bytes)) = &result {
            staging.map_async(wgpu::MapMode::Read, 0..*bytes, |_| {});
        }
        drop(span);
        if is_warm && timeline.is_on() {
            let (timeline, submitted) = (timeline.clone(), Instant::now());
            self.shared.device.queue.on_submitted_work_done(move || {
                timeline.device_span(Track::Compute, "pass", submitted, Instant::now());
            });
        }
        self.shared.device.check(DURING)?;
        Ok(Submitted { done, tokens: batch.tokens.len(), result, stays: batch.stays })
    }

    /// Where so many groups are divided into submissions.
    fn cuts(&self, groups: usize, is_idle: bool) -> Vec<usize> {
        let mut cuts: Vec<usize> = match self.steps.submissions.map(NonZeroUsize::get) {
            Some(parts) => (1..parts.min(groups)).map(|part| part * groups / parts.min(groups)).collect(),
            None if is_idle => vec![groups / AHEAD],
            None => Vec::new(),
        };
        cuts.retain(|cut| *cut > 0);
        cuts
    }

    /// Waits for a pass and gives its result, empty if nothing was asked for.
    fn collect(&mut self, pass: Submitted, on_result: &mut dyn FnMut(Vec<f32>)) -> Result<(), RuntimeError> {
        if !pass.stays {
            self.shared.device.wait_for(pass.done, format_args!("running a pass of {} tokens", pass.tokens))?;
        }
        on_result(match pass.result {
            None => Vec::new(),
            Some((staging, bytes)) => {
                let result = self.shared.device.mapped(&staging, bytes, floats)?;
                self.read_back.results.push(staging);
                result
            }
        });
        Ok(())
    }

    /// Appends copying a row of logits to where no pass writes.
    pub(super) fn keep_logits(&mut self, output: usize, encoder: &mut wgpu::CommandEncoder) {
        let bytes = u64::from(self.shared.model.shape().vocab) * 4;
        let device = &self.shared.device;
        let kept = self.kept.logits.get_or_insert_with(|| device.storage("logits", bytes));
        encoder.copy_buffer_to_buffer(&self.buffers[BufferId::Slot(output)], 0, kept, 0, bytes);
    }

    /// A buffer for results: the smallest that is large enough, or a new one in place of the smallest.
    fn take_staging(&mut self, bytes: u64) -> wgpu::Buffer {
        self.read_back.results.sort_by_key(wgpu::Buffer::size);
        match self.read_back.results.iter().position(|buffer| buffer.size() >= bytes) {
            Some(i) => self.read_back.results.remove(i),
            None => {
                self.read_back.results.drain(..self.read_back.results.len().min(1));
                self.shared.device.staging(bytes)
            }
        }
    }

    /// Divides tensors of states into groups that are copied at once: within a budget one at a time.
    fn state_groups<'a>(&self, states: &'a [(usize, State)]) -> Vec<&'a [(usize, State)]> {
        let most = if self.shared.weights.lock().capacity().is_some() { 0 } else { READ_BACK_BYTES };
        let (mut groups, mut rest) = (Vec::new(), states);
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(_, tensor): &&(usize, State)| {
                bytes += self.states.place(*tensor).slot_bytes;
                bytes <= most
            };
            let (group, later) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            groups.push(group);
            rest = later;
        }
        groups
    }

    /// Submits copies of tensors of states, as they are after all passes submitted so far.
    fn submit_states<'a>(&mut self, group: &'a [(usize, State)]) -> (&'a [(usize, State)], Submitted) {
        let bytes: u64 = group.iter().map(|(_, tensor)| self.states.place(*tensor).slot_bytes).sum();
        let known = self.read_back.states.take().filter(|staging| staging.size() >= bytes);
        let staging = known.unwrap_or_else(|| self.shared.device.staging(bytes));
        let mut encoder = self.shared.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut to = 0;
        for (slot, tensor) in group {
            let place = self.states.place(*tensor);
            encoder.copy_buffer_to_buffer(place.buffer, place.at(*slot), &staging, to, place.slot_bytes);
            to += place.slot_bytes;
        }
        let done = self.shared.device.queue.submit([encoder.finish()]);
        staging.map_async(wgpu::MapMode::Read, 0..bytes, |_| {});
        (group, Submitted { done, tokens: 0, result: Some((staging, bytes)), stays: false })
    }

    /// Waits for such copies and appends the tensors.
    fn collect_states(
        &mut self,
        group: &[(usize, State)],
        copied: Submitted,
        tensors: &mut Vec<Vec<f32>>,
    ) -> Result<(), RuntimeError> {
        self.shared.device.wait_for(copied.done, "reading states back")?;
        let Some((staging, bytes)) = copied.result else { return Ok(()) };
        let states = &self.states;
        let copied = self.shared.device.mapped(&staging, bytes, |mut rest| {
            let parts: Vec<(State, &[u8])> = group
                .iter()
                .map(|(_, tensor)| {
                    let (own, others) = rest.split_at(states.place(*tensor).slot_bytes as usize);
                    rest = others;
                    (*tensor, own)
                })
                .collect();
            // New memory takes longer to come by than to fill: on all cores.
            let decoded = parts.into_par_iter().map(|(tensor, own)| states.place(tensor).decode(own));
            decoded.collect::<Vec<Vec<f32>>>()
        })?;
        tensors.extend(copied);
        // A budget counts on no buffer that stays.
        self.read_back.states = Some(staging).filter(|_| self.shared.weights.lock().capacity().is_none());
        Ok(())
    }
}

/// Copies floats out, on all cores where they are many: new memory takes longer to come by than to fill.
fn floats(mapped: &[u8]) -> Vec<f32> {
    const PART: usize = 1 << 16;
    let mut all = vec![0.0f32; mapped.len() / 4];
    let parts = all.par_chunks_mut(PART).zip(mapped.par_chunks(4 * PART));
    parts.for_each(|(to, from)| bytemuck::cast_slice_mut(to).copy_from_slice(from));
    all
}
