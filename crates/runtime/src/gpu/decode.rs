//! The decode loop: steps are encoded and submitted ahead, each reading the tokens that the one before it chose on the
//! device; ids come back some steps later.
//!
//! Ends that the device knows of (stop tokens, the most tokens) take effect there at once: see [`crate::sampler`]. An end
//! that only the caller knows comes too late for the steps in flight, and these are taken back. Gating each step on the ids
//! of the last would cost a round trip a step (40 to 60 us), and keeping the state before each step a copy of it (50 us for
//! 43 MB). Instead the state is kept once in [`STRETCH`] steps, when nothing is in flight, and the few steps since then
//! whose tokens were accepted are run again, the same kernels on the same numbers. An accepted token costs a fraction of a
//! copy and of a round trip; a refusal, which ends the call, at most [`STRETCH`] steps.

use super::snapshot::Snapshot;
use super::step::Step;
use super::{GpuExecutor, lock};
use crate::decode::{Continuation, DecodeError, DecodeReport, Start};
use crate::sampler::{Progress, Sampler, SamplerSize, Standing, Wiring, check};
use crate::schedule::Table;
use crate::{Batch, Outputs, RuntimeError, Sequence};
use std::ops::ControlFlow;
use std::time::Instant;
use wgoose_graph::BatchShape;

/// Steps between two copies of the state.
const STRETCH: u64 = 32;

/// What is kept from one call to the next.
#[derive(Default)]
pub(super) struct Decoder {
    sampler: Option<Sampler>,
    snapshot: Option<Snapshot>,
}

impl Decoder {
    /// Bytes of its tables and of its copies of states on the device.
    pub(super) fn bytes(&self) -> [u64; 2] {
        [self.sampler.as_ref().map_or(0, Sampler::bytes), self.snapshot.as_ref().map_or(0, Snapshot::bytes)]
    }
}

impl GpuExecutor {
    /// Whether tokens can be chosen on the device: all weights stay there, and a state can be spared.
    pub(crate) fn can_decode(&self) -> bool {
        self.has_spare && lock(&self.weights).capacity().is_none_or(|room| room.ring == 0)
    }

    /// Continues the sequences of a batch that was checked; see [`crate::Engine::decode`].
    pub(crate) fn decode(
        &mut self,
        batch: Batch,
        start: Start<'_>,
        sequences: &[Continuation<'_>],
        in_flight: usize,
        on_tokens: &mut dyn FnMut(&[Option<u32>]) -> ControlFlow<()>,
    ) -> Result<DecodeReport, RuntimeError> {
        // Within a budget there is no room to go back to.
        let in_flight = if lock(&self.weights).capacity().is_some() { 1 } else { in_flight.max(1) };
        let shape = batch.shape();
        self.prepare(&shape)?;
        let mut decoder = std::mem::take(&mut self.decoder);
        let result = self.begin(&mut decoder, &shape, &batch, start, sequences, in_flight).and_then(|()| {
            let (Some(step), Some(sampler)) = (self.steps.get(&shape), &decoder.sampler) else {
                return Err(DecodeError::Unsupported.into());
            };
            let snapshot = decoder.snapshot.as_ref().filter(|_| in_flight > 1);
            let mut stream = Stream::new(self, step, sampler, snapshot, batch, in_flight);
            let most = sequences.iter().map(|s| s.max_tokens).max().unwrap_or(0);
            let result = stream.run(start, u64::from(most), on_tokens);
            // Whoever runs something next must find the tables and the states at rest.
            self.device.wait("decoding").and(result)
        });
        self.decoder = decoder;
        result
    }

    /// The batch of a step, if what is asked for makes sense.
    pub(crate) fn check_decode(&self, start: Start<'_>, sequences: &[Continuation<'_>]) -> Result<Batch, RuntimeError> {
        if !self.can_decode() {
            return Err(DecodeError::Unsupported.into());
        }
        if sequences.is_empty() {
            return Err(DecodeError::NoSequences.into());
        }
        for (i, sequence) in sequences.iter().enumerate() {
            check(i, sequence)?;
        }
        let vocab = self.model.shape().vocab;
        let (what, got, want) = match start {
            Start::Logits(logits) => ("logits", logits.len(), sequences.len() * vocab as usize),
            Start::Tokens(tokens) => ("tokens", tokens.len(), sequences.len()),
        };
        if got != want {
            return Err(DecodeError::Start { what, got, want }.into());
        }
        let pack = |i: usize, tokens| Sequence { slot: sequences[i].slot, tokens, outputs: Outputs::Last };
        let rows: Vec<Sequence<'_>> = match start {
            Start::Logits(_) => (0..sequences.len()).map(|i| pack(i, &[0])).collect(),
            Start::Tokens(tokens) => (0..sequences.len()).map(|i| pack(i, &tokens[i..=i])).collect(),
        };
        Ok(Batch::pack(&rows, vocab, self.slots)?)
    }

    /// Makes what is missing for steps of that shape, and writes everything that the first one reads.
    fn begin(
        &self,
        decoder: &mut Decoder,
        shape: &BatchShape,
        batch: &Batch,
        start: Start<'_>,
        sequences: &[Continuation<'_>],
        in_flight: usize,
    ) -> Result<(), RuntimeError> {
        let output = self.steps.get(shape).filter(|step| step.ready).and_then(|step| step.recording.output);
        let logits = self.arena[output.ok_or(DecodeError::Unsupported)?].clone();
        let size = SamplerSize {
            sequences: shape.segments,
            vocab: self.model.shape().vocab,
            spare: self.slots as u32,
            counts: sequences.iter().any(|s| s.sampling.penalties.any()),
        };
        let tables = |table| self.tables[&table].clone();
        let wiring = Wiring { logits, tokens: tables(Table::Tokens), segments: tables(Table::Segments) };
        self.write_tables(batch);
        if let Start::Logits(given) = start {
            self.device.queue.write_buffer(&wiring.logits, 0, bytemuck::cast_slice(given));
        }
        if !decoder.sampler.as_ref().is_some_and(|s| s.is(size, &wiring)) {
            let pipelines = &mut lock(&self.pipelines);
            decoder.sampler = Some(Sampler::new(&self.device, pipelines, &self.sources, size, wiring)?);
        }
        if let Some(sampler) = &decoder.sampler {
            sampler.begin(&self.device, sequences);
        }
        if in_flight > 1 && !decoder.snapshot.as_ref().is_some_and(|s| s.holds(sequences.len())) {
            decoder.snapshot = None;
            decoder.snapshot = Some(Snapshot::new(self, sequences.len()));
        }
        self.device.check("preparing to decode")
    }
}

/// A buffer in which the progress of a round comes back.
struct Returning {
    buffer: wgpu::Buffer,
    /// The submission that fills it.
    filled: Option<wgpu::SubmissionIndex>,
}

/// Rounds of choosing a token for every sequence, all but perhaps the first after a step.
struct Stream<'a> {
    executor: &'a GpuExecutor,
    step: &'a Step,
    sampler: &'a Sampler,
    snapshot: Option<&'a Snapshot>,
    slots: Vec<usize>,
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
    report: DecodeReport,
}

impl<'a> Stream<'a> {
    fn new(
        executor: &'a GpuExecutor,
        step: &'a Step,
        sampler: &'a Sampler,
        snapshot: Option<&'a Snapshot>,
        batch: Batch,
        in_flight: usize,
    ) -> Self {
        let slots: Vec<usize> = batch.segments.chunks_exact(4).map(|segment| segment[2] as usize).collect();
        let count = slots.len();
        let bytes = (count * size_of::<Progress>()) as u64;
        Stream {
            ring: (0..in_flight).map(|_| Returning { buffer: executor.device.staging(bytes), filled: None }).collect(),
            executor,
            step,
            sampler,
            snapshot,
            slots,
            batch,
            submitted: 0,
            seen: 0,
            reads: vec![None; count],
            accepted: Vec::with_capacity(count * STRETCH as usize),
            going: vec![true; count],
            report: DecodeReport::default(),
        }
    }

    fn run(
        &mut self,
        start: Start<'_>,
        most: u64,
        on_tokens: &mut dyn FnMut(&[Option<u32>]) -> ControlFlow<()>,
    ) -> Result<DecodeReport, RuntimeError> {
        let starts_with_logits = matches!(start, Start::Logits(_));
        if let Start::Tokens(tokens) = start {
            self.reads.iter_mut().zip(tokens).for_each(|(read, token)| *read = Some(*token));
        }
        let mut chosen = vec![None; self.slots.len()];
        while self.seen < most && self.going.contains(&true) {
            if self.submitted == self.seen {
                self.begin_stretch();
            }
            let end_of_stretch = match self.snapshot {
                Some(_) => self.seen - self.seen % STRETCH + STRETCH,
                None => u64::MAX,
            };
            while self.submitted < most.min(end_of_stretch) && self.submitted - self.seen < self.ring.len() as u64 {
                self.submit(self.submitted > 0 || !starts_with_logits);
            }
            self.collect(&mut chosen)?;
            if on_tokens(&chosen).is_break() {
                if self.submitted > self.seen && self.going.contains(&true) {
                    self.take_back();
                }
                break;
            }
        }
        self.report.rounds = self.seen;
        Ok(self.report)
    }

    /// Copies the states: nothing is in flight, all that was read was accepted.
    fn begin_stretch(&mut self) {
        let Some(snapshot) = self.snapshot else { return };
        let mut encoder = self.encoder();
        snapshot.save(self.executor, &self.slots, &mut encoder);
        self.executor.device.queue.submit([encoder.finish()]);
        self.accepted.clear();
    }

    /// Encodes and submits a round.
    fn submit(&mut self, with_step: bool) {
        let begun = Instant::now();
        let mut encoder = self.encoder();
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            if with_step {
                self.step.dispatch(0..self.step.groups.len(), &mut pass);
            }
            self.sampler.encode(&mut pass);
        }
        let place = (self.submitted % self.ring.len() as u64) as usize;
        let returning = &mut self.ring[place];
        encoder.copy_buffer_to_buffer(self.sampler.progress(), 0, &returning.buffer, 0, returning.buffer.size());
        let commands = encoder.finish();
        self.report.encode_seconds += begun.elapsed().as_secs_f64();
        returning.filled = Some(self.executor.device.queue.submit([commands]));
        returning.buffer.map_async(wgpu::MapMode::Read, .., |_| {});
        self.submitted += 1;
    }

    /// Waits for the tokens of the oldest round in flight; `None` for sequences that ended before.
    fn collect(&mut self, chosen: &mut [Option<u32>]) -> Result<(), RuntimeError> {
        const DURING: &str = "reading tokens back";
        let fail = |why: String| RuntimeError::Device { during: DURING, why };
        let device = &self.executor.device;
        let place = (self.seen % self.ring.len() as u64) as usize;
        let returning = &mut self.ring[place];
        let wait = wgpu::PollType::Wait { submission_index: returning.filled.take(), timeout: None };
        let polled = device.device.poll(wait);
        device.check(DURING)?;
        polled.map_err(|e| fail(e.to_string()))?;
        self.accepted.extend_from_slice(if self.snapshot.is_some() { &self.reads } else { &[] });
        {
            let view = returning.buffer.get_mapped_range(..).map_err(|e| fail(e.to_string()))?;
            let progress: &[Progress] = bytemuck::cast_slice(&view);
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
        Ok(())
    }

    /// Goes back to the copy of the states, and from there to where the last tokens seen have not been read.
    fn take_back(&mut self) {
        let Some(snapshot) = self.snapshot else { return };
        let mut encoder = self.encoder();
        snapshot.restore(self.executor, &self.slots, &mut encoder);
        self.executor.device.queue.submit([encoder.finish()]);
        for reads in self.accepted.chunks_exact(self.slots.len()) {
            if reads.iter().all(Option::is_none) {
                continue;
            }
            for (i, read) in reads.iter().enumerate() {
                self.batch.tokens[i] = read.unwrap_or(0);
                self.batch.segments[4 * i + 2] = read.map_or(self.executor.slots, |_| self.slots[i]) as u32;
            }
            self.executor.write_tables(&self.batch);
            let mut encoder = self.encoder();
            self.step.encode(0..self.step.groups.len(), &mut encoder);
            self.executor.device.queue.submit([encoder.finish()]);
            self.report.repeated += 1;
        }
    }

    fn encoder(&self) -> wgpu::CommandEncoder {
        self.executor.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }
}
