//! The decode loop: steps are encoded and submitted ahead, each reading the tokens that the one before it chose on the
//! device; ids come back some steps later.
//!
//! Ends that the device knows of (stop tokens, the most tokens) take effect there at once: see [`crate::sampler`]. An end
//! that only the caller knows comes too late for the steps in flight, and these are rolled back. Gating each step on the ids
//! of the last would cost a round trip a step (40 to 60 us), and keeping the state before each step a copy of it (50 us for
//! 43 MB). Instead the state is kept once in [`STRETCH`] steps, when nothing is in flight, and the few steps since then
//! whose tokens were accepted are run again, the same kernels on the same numbers. An accepted token costs a fraction of a
//! copy and of a round trip; a refusal, which ends the call, at most [`STRETCH`] steps.

use super::snapshot::Snapshot;
use crate::decode::{ChosenToken, DecodeError, DecodeReport, Logprob, MOST_LISTED, OnTokens, Start};
use crate::gpu::GpuExecutor;
use crate::gpu::persistent::{BARRIER_BYTES, PersistentStep, TIMED_OUT_BYTE};
use crate::gpu::step::Step;
use crate::sampler::{Progress, Sampler, Standing};
use crate::schedule::BufferId;
use crate::{Batch, RuntimeError};
use std::sync::Arc;
use std::time::Instant;

/// Steps between two copies of the state.
const STRETCH: u64 = 32;

/// A buffer in which the progress of a round comes back.
struct Returning {
    buffer: wgpu::Buffer,
    /// The submission that fills it.
    filled: Option<wgpu::SubmissionIndex>,
}

/// Bytes of what comes back of a round, before the grid barrier.
#[derive(Clone, Copy)]
struct Layout {
    progress: u64,
    logprobs: u64,
}

impl Layout {
    fn new(count: usize, sampler: &Sampler) -> Self {
        let row = (MOST_LISTED + 1) * size_of::<Logprob>();
        let logprobs = if sampler.logprobs().is_some() { (count * row) as u64 } else { 0 };
        Layout { progress: (count * size_of::<Progress>()) as u64, logprobs }
    }

    fn bytes(self) -> u64 {
        self.progress + self.logprobs + BARRIER_BYTES
    }
}

/// What a first round leaves to those that follow.
pub(super) struct First {
    /// What each sequence reads next.
    reads: Vec<Option<u32>>,
    going: Vec<bool>,
}

/// Rounds of choosing a token for every sequence, all but perhaps the first after a step.
pub(super) struct Stream<'a> {
    executor: &'a GpuExecutor,
    /// The chain of dispatches; none for a first round, which chooses from logits that are there.
    step: Option<&'a Step>,
    /// The same with persistent kernels, until they time out.
    persistent: Option<Arc<PersistentStep>>,
    sampler: &'a Sampler,
    snapshot: Option<&'a Snapshot>,
    slots: Vec<usize>,
    layout: Layout,
    /// The tables, to run a step again.
    batch: Batch,
    ring: Vec<Returning>,
    submitted: u64,
    seen: u64,
    /// What each sequence reads in the next round that is seen.
    reads: Vec<Option<u32>>,
    /// What the sequences read in the rounds since the state was copied, `[rounds, B]`.
    accepted: Vec<Option<u32>>,
    /// Sequences that have not ended.
    going: Vec<bool>,
    /// Log-probabilities of the round seen last, `[B, MOST_LISTED + 1]`, if any sequence asks for them.
    listed: Vec<Logprob>,
    report: DecodeReport,
}

impl<'a> Stream<'a> {
    /// Begins with what is in the tables, whose first `count` segments are to be continued; without a snapshot every
    /// round must wait for the one before it.
    pub(super) fn new(
        executor: &'a GpuExecutor,
        (step, persistent): (Option<&'a Step>, Option<Arc<PersistentStep>>),
        sampler: &'a Sampler,
        snapshot: Option<&'a Snapshot>,
        (batch, count): (Batch, usize),
        in_flight: usize,
    ) -> Self {
        let slots: Vec<usize> = batch.segments[..count].iter().map(|segment| segment.slot as usize).collect();
        let bytes = Layout::new(count, sampler).bytes();
        Stream {
            ring: (0..in_flight)
                .map(|_| Returning { buffer: executor.shared.device.staging(bytes), filled: None })
                .collect(),
            layout: Layout::new(count, sampler),
            executor,
            step,
            persistent,
            sampler,
            snapshot,
            slots,
            batch,
            submitted: 0,
            seen: 0,
            reads: vec![None; count],
            accepted: Vec::with_capacity(count * STRETCH as usize),
            going: vec![true; count],
            listed: Vec::new(),
            report: DecodeReport::default(),
        }
    }

    /// Runs rounds from logits or tokens on, at most `most`, until all sequences have ended or the caller breaks.
    pub(super) fn run(
        &mut self,
        start: Start<'_>,
        most: u64,
        on_tokens: OnTokens<'_>,
    ) -> Result<DecodeReport, RuntimeError> {
        if let Start::Tokens(tokens) = start {
            self.reads.iter_mut().zip(tokens).for_each(|(read, token)| *read = Some(*token));
        }
        self.rounds(start.has_logits(), most, on_tokens)
    }

    /// Goes on where a first round of the same sequences ended, which had no step; at most `most` rounds.
    pub(super) fn go_on(
        &mut self,
        first: First,
        most: u64,
        on_tokens: OnTokens<'_>,
    ) -> Result<DecodeReport, RuntimeError> {
        self.give(&first.reads);
        (self.reads, self.going) = (first.reads, first.going);
        self.rounds(false, most, on_tokens)
    }

    /// How the sequences stand after a first round; none if all have ended, or the caller broke.
    pub(super) fn first(self, goes_on: bool) -> Option<First> {
        (goes_on && self.going.contains(&true)).then_some(First { reads: self.reads, going: self.going })
    }

    fn rounds(
        &mut self,
        starts_with_logits: bool,
        most: u64,
        on_tokens: OnTokens<'_>,
    ) -> Result<DecodeReport, RuntimeError> {
        let mut chosen = vec![None; self.slots.len()];
        while self.seen < most && self.going.contains(&true) {
            if self.submitted == self.seen {
                self.take_over()?;
                self.begin_stretch();
            }
            let end_of_stretch = match self.snapshot {
                Some(_) => self.seen - self.seen % STRETCH + STRETCH,
                None => u64::MAX,
            };
            while self.submitted < most.min(end_of_stretch) && self.submitted - self.seen < self.ring.len() as u64 {
                self.submit(self.submitted > 0 || !starts_with_logits);
            }
            if !self.collect(&mut chosen)? {
                continue;
            }
            if on_tokens(&self.choices(&chosen)).is_break() {
                if self.submitted > self.seen && self.going.contains(&true) {
                    self.roll_back()?;
                }
                break;
            }
        }
        self.report.rounds = self.seen;
        Ok(self.report)
    }

    /// What the caller is given of a round.
    fn choices(&self, chosen: &[Option<u32>]) -> Vec<Option<ChosenToken<'_>>> {
        let row = |i: usize| self.listed.chunks_exact(MOST_LISTED + 1).nth(i).unwrap_or_default();
        let of = |(i, token): (usize, &Option<u32>)| Some(ChosenToken { token: (*token)?, logprobs: row(i) });
        chosen.iter().enumerate().map(of).collect()
    }

    /// Goes on with persistent kernels once they are compiled: nothing is in flight, and the logits were read.
    fn take_over(&mut self) -> Result<(), RuntimeError> {
        if self.submitted == 0 || self.persistent.is_some() || self.snapshot.is_none() || self.report.timed_out {
            return Ok(());
        }
        let shape = self.batch.shape();
        if self.executor.ensure_persistent(&shape)? {
            let reads = std::mem::take(&mut self.reads);
            self.give(&reads);
            self.reads = reads;
            self.persistent = self.executor.steps.persistent.step(&shape);
        }
        Ok(())
    }

    /// Copies the states: nothing is in flight, all that was read was accepted.
    fn begin_stretch(&mut self) {
        let Some(snapshot) = self.snapshot else { return };
        let mut encoder = self.encoder();
        snapshot.save(self.executor, &self.slots, &mut encoder);
        self.executor.shared.device.queue.submit([encoder.finish()]);
        self.accepted.clear();
    }

    /// Encodes and submits a round.
    fn submit(&mut self, with_step: bool) {
        let begun = Instant::now();
        let mut encoder = self.encoder();
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            if with_step {
                self.dispatch(&mut pass);
                self.report.persistent += u64::from(self.persistent.is_some());
            }
            self.sampler.encode(&mut pass);
        }
        let place = (self.submitted % self.ring.len() as u64) as usize;
        let returning = &mut self.ring[place];
        let Layout { progress, logprobs } = self.layout;
        encoder.copy_buffer_to_buffer(self.sampler.progress(), 0, &returning.buffer, 0, progress);
        if let Some(listed) = self.sampler.logprobs() {
            encoder.copy_buffer_to_buffer(listed, 0, &returning.buffer, progress, logprobs);
        }
        if self.persistent.is_some() {
            encoder.copy_buffer_to_buffer(
                &self.executor.buffers[BufferId::GridBarrier],
                0,
                &returning.buffer,
                progress + logprobs,
                BARRIER_BYTES,
            );
        }
        let commands = encoder.finish();
        self.report.encode_seconds += begun.elapsed().as_secs_f64();
        returning.filled = Some(self.executor.shared.device.queue.submit([commands]));
        returning.buffer.map_async(wgpu::MapMode::Read, .., |_| {});
        self.submitted += 1;
    }

    /// A step.
    fn dispatch(&self, pass: &mut wgpu::ComputePass<'_>) {
        match &self.persistent {
            Some(persistent) => persistent.dispatch(pass),
            None => self.step.iter().for_each(|step| step.dispatch(0..step.groups.len(), pass)),
        }
    }

    /// Waits for the tokens of the oldest round in flight; `None` for sequences that ended before. False: its step
    /// timed out, and everything was put back to where it can be run again.
    fn collect(&mut self, chosen: &mut [Option<u32>]) -> Result<bool, RuntimeError> {
        const DURING: &str = "running a step";
        let fail = |why: wgpu::MapRangeError| RuntimeError::Device { during: DURING.to_owned(), why: why.to_string() };
        let device = &self.executor.shared.device;
        let place = (self.seen % self.ring.len() as u64) as usize;
        let returning = &mut self.ring[place];
        if let Some(filled) = returning.filled.take() {
            device.wait_for(filled, DURING)?;
        }
        {
            let view = returning.buffer.get_mapped_range(..).map_err(fail)?;
            let (progress, rest) = view.split_at(self.layout.progress as usize);
            let (logprobs, barrier) = rest.split_at(self.layout.logprobs as usize);
            if self.persistent.is_some() && barrier[TIMED_OUT_BYTE..TIMED_OUT_BYTE + 4].iter().any(|byte| *byte != 0) {
                drop(view);
                return self.fall_back().map(|()| false);
            }
            self.accepted.extend_from_slice(if self.snapshot.is_some() { &self.reads } else { &[] });
            let progress: &[Progress] = bytemuck::cast_slice(progress);
            self.listed.clear();
            self.listed.extend_from_slice(bytemuck::cast_slice(logprobs));
            for (i, progress) in progress.iter().enumerate() {
                chosen[i] = self.going[i].then_some(progress.token);
                match progress.standing() {
                    Standing::Broken(why) => return Err(DecodeError::NoToken { sequence: i, why }.into()),
                    Standing::Ended => self.going[i] = false,
                    Standing::GoesOn => {}
                }
                self.reads[i] = chosen[i].filter(|_| self.going[i]);
            }
        }
        returning.buffer.unmap();
        self.seen += 1;
        Ok(true)
    }

    /// Continues with one dispatch per op, from before the step that timed out: since then no token was chosen, and no
    /// state is valid.
    fn fall_back(&mut self) -> Result<(), RuntimeError> {
        self.executor.shared.device.wait("rolling back steps")?;
        self.executor.reset_grid_barrier();
        for round in self.seen..self.submitted {
            self.ring[(round % self.ring.len() as u64) as usize].buffer.unmap();
        }
        self.report.persistent -= self.submitted - self.seen;
        self.report.timed_out = true;
        self.persistent = None;
        self.submitted = self.seen;
        self.roll_back()?;
        let reads = std::mem::take(&mut self.reads);
        self.give(&reads);
        self.reads = reads;
        Ok(())
    }

    /// Restores the copy of the states, and reads again all accepted tokens but the last: with persistent kernels if they
    /// were read so, so that the states have the same bits, or with one dispatch per op if these time out now.
    fn roll_back(&mut self) -> Result<(), RuntimeError> {
        self.read_again();
        if self.persistent.is_some() && self.executor.timed_out()? {
            self.executor.reset_grid_barrier();
            self.report.timed_out = true;
            self.persistent = None;
            self.read_again();
        }
        Ok(())
    }

    fn read_again(&mut self) {
        let Some(snapshot) = self.snapshot else { return };
        let mut encoder = self.encoder();
        snapshot.restore(self.executor, &self.slots, &mut encoder);
        self.executor.shared.device.queue.submit([encoder.finish()]);
        let accepted = std::mem::take(&mut self.accepted);
        for reads in accepted.chunks_exact(self.slots.len()) {
            if reads.iter().all(Option::is_none) {
                continue;
            }
            self.give(reads);
            let mut encoder = self.encoder();
            self.dispatch(&mut encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()));
            self.executor.shared.device.queue.submit([encoder.finish()]);
            self.report.repeated += 1;
        }
        self.accepted = accepted;
    }

    /// Has the next step read these tokens; a sequence without one uses the spare slot.
    fn give(&mut self, reads: &[Option<u32>]) {
        for (i, read) in reads.iter().enumerate() {
            self.batch.tokens[i] = read.unwrap_or(0);
            self.batch.segments[i].slot = read.map_or(self.executor.states.slots, |_| self.slots[i]) as u32;
        }
        self.executor.write_tables(&self.batch);
    }

    fn encoder(&self) -> wgpu::CommandEncoder {
        self.executor.shared.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }
}
