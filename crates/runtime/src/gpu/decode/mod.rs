//! Decoding: what a call needs is made, or taken from the call before; the loop itself is in `stream`.

mod snapshot;
mod stream;

use super::GpuExecutor;
use crate::batch::PassShape;
use crate::decode::{Ahead, Continuation, DecodeError, DecodeReport, OnTokens, Start};
use crate::gpu::persistent::ONE;
use crate::sampler::{Sampler, SamplerSize, Wiring, check};
use crate::schedule::{BufferId, Table};
use crate::timeline::Track;
use crate::{Batch, Decoder, Outputs, RuntimeError, Sequence};
pub(super) use snapshot::Snapshot;
use stream::{First, Stream};

/// Most samplers that are kept.
pub(super) const MOST_SAMPLERS: usize = 2;

/// What is kept from one call to the next.
#[derive(Default)]
pub(super) struct Kept {
    /// The one used last is last. A batch alternates between decode steps and steps beside prefill.
    samplers: Vec<Sampler>,
    /// The logits that the last prompt has left, `[V]`.
    pub(super) logits: Option<wgpu::Buffer>,
    pub(super) snapshot: Option<Snapshot>,
}

impl Kept {
    /// Bytes of its tables and of its copies of states on the device.
    pub(super) fn bytes(&self) -> [u64; 2] {
        let logits = self.logits.as_ref().map_or(0, wgpu::Buffer::size);
        let samplers: u64 = self.samplers.iter().map(Sampler::bytes).sum();
        [samplers + logits, self.snapshot.as_ref().map_or(0, Snapshot::bytes)]
    }
}

impl GpuExecutor {
    /// Whether tokens can be chosen on the device: all weights stay there, and a state can be spared.
    pub(crate) fn can_decode(&self) -> bool {
        self.states.has_spare && self.shared.weights.lock().capacity().is_none_or(|room| room.ring == 0)
    }

    /// Makes what chooses the tokens of a step of that shape, and writes everything that the first round reads.
    fn begin(
        &self,
        kept: &mut Kept,
        batch: &Batch,
        start: Start<'_>,
        sequences: &[Continuation<'_>],
    ) -> Result<(), RuntimeError> {
        let chain = self.steps.chains.get(&PassShape::from(batch.shape()));
        let output = chain.and_then(|step| step.recording.output).ok_or(DecodeError::Unsupported)?;
        let logits = self.buffers[BufferId::Slot(output)].clone();
        let (rows, vocab) = (batch.outputs.len() as u32, self.shared.model.shape().vocab);
        let size = SamplerSize::of(sequences, rows, vocab, self.states.slots as u32);
        let tables = |table| self.buffers[BufferId::Table(table)].clone();
        let (tokens, segments) = (tables(Table::Tokens), tables(Table::Segments));
        let identity = (self.buffers.generation, output);
        let wiring =
            Wiring { logits, tokens, segments, grid_barrier: self.buffers[BufferId::GridBarrier].clone(), identity };
        // Nothing is in flight; a timeout in a round whose result was dropped must not stop this one.
        self.reset_grid_barrier();
        self.write_tables(batch);
        match (start, &kept.logits) {
            (Start::Logits(given), _) => {
                self.shared.device.queue.write_buffer(&wiring.logits, 0, bytemuck::cast_slice(given));
            }
            (Start::Kept, Some(left)) => {
                let descriptor = wgpu::CommandEncoderDescriptor::default();
                let mut encoder = self.shared.device.device.create_command_encoder(&descriptor);
                encoder.copy_buffer_to_buffer(left, 0, &wiring.logits, 0, left.size());
                self.shared.device.queue.submit([encoder.finish()]);
            }
            _ => {}
        }
        let (device, catalogue) = (&self.shared.device, &self.planner.catalogue);
        let pipelines = &mut self.shared.pipelines.lock();
        kept.samplers.retain(|sampler| sampler.is_of(self.buffers.generation));
        match kept.samplers.iter().position(|sampler| sampler.is(size, identity)) {
            Some(place) => kept.samplers[place..].rotate_left(1),
            None => {
                let _span = device.timeline().span(Track::Allocate, "sampler");
                let least_recent = kept.samplers.len().saturating_sub(MOST_SAMPLERS - 1);
                kept.samplers.drain(..least_recent);
                kept.samplers.push(Sampler::new(device, pipelines, catalogue, size, &wiring)?);
            }
        }
        if let Some(sampler) = kept.samplers.last() {
            sampler.begin(device, pipelines, catalogue, sequences)?;
        }
        self.shared.device.check("preparing to decode")
    }

    /// The first round where its step is not ready: tokens are chosen from logits that are there, before the kernels that read
    /// them are compiled. `None` for what goes on if nothing does.
    fn choose_first(
        &mut self,
        kept: &mut Kept,
        batch: &Batch,
        start: Start<'_>,
        sequences: &[Continuation<'_>],
        on_tokens: OnTokens<'_>,
    ) -> Result<Option<First>, RuntimeError> {
        let pass = PassShape::from(batch.shape());
        let step = self.open_step(&pass);
        self.keep_step(pass, step)?;
        self.begin(kept, batch, start, sequences)?;
        let Some(sampler) = kept.samplers.last() else { return Err(DecodeError::Unsupported.into()) };
        let mut stream = Stream::new(self, (None, None), sampler, None, (batch.clone(), sequences.len()), 1);
        let mut goes_on = true;
        stream.run(start, 1, &mut |tokens| {
            let flow = on_tokens(tokens);
            goes_on = flow.is_continue();
            flow
        })?;
        Ok(stream.first(goes_on))
    }

    /// The rounds of a call, and what is needed for them.
    fn decode_with(
        &mut self,
        kept: &mut Kept,
        batch: Batch,
        start: Start<'_>,
        sequences: &[Continuation<'_>],
        ahead: Ahead,
        on_tokens: OnTokens<'_>,
    ) -> Result<DecodeReport, RuntimeError> {
        let shape = batch.shape();
        let most = sequences.iter().map(|s| u64::from(s.max_tokens)).max().unwrap_or(0);
        let is_ready = self.steps.chains.get(&shape.into()).is_some_and(|step| step.ready);
        let mut first = None;
        if !is_ready && start.has_logits() && most > 0 {
            first = self.choose_first(kept, &batch, start, sequences, on_tokens)?;
            if first.is_none() || most == 1 {
                return Ok(DecodeReport { rounds: 1, ..DecodeReport::default() });
            }
        }
        self.prepare(&shape)?;
        self.ensure_persistent(&shape)?;
        if first.is_none() {
            self.begin(kept, &batch, start, sequences)?;
        }
        // A persistent kernel may time out: its step is taken back.
        let in_flight = ahead.steps();
        let is_taken_back = in_flight > 1 && (matches!(ahead, Ahead::Breakable(_)) || shape == ONE);
        if is_taken_back && !kept.snapshot.as_ref().is_some_and(|s| s.holds(sequences.len())) {
            kept.snapshot = None;
            let _span = self.shared.device.timeline().span(Track::Allocate, "snapshot");
            kept.snapshot = Some(Snapshot::new(self, batch.outputs.len()));
            self.shared.device.check("preparing to decode")?;
        }
        let (Some(step), Some(sampler)) = (self.steps.chains.get(&shape.into()), kept.samplers.last()) else {
            return Err(DecodeError::Unsupported.into());
        };
        let snapshot = kept.snapshot.as_ref().filter(|_| is_taken_back);
        // Without a copy of the states a timeout could not be rolled back.
        let persistent = self.steps.persistent.step(&shape).filter(|_| snapshot.is_some());
        let rows = (batch, sequences.len());
        let mut stream = Stream::new(self, (Some(step), persistent), sampler, snapshot, rows, in_flight);
        let result = match first {
            Some(first) => stream.go_on(first, most - 1, on_tokens).map(|r| DecodeReport { rounds: r.rounds + 1, ..r }),
            None => stream.run(start, most, on_tokens),
        };
        // The next run must find the tables and the states at rest.
        self.shared.device.wait("decoding").and(result)
    }
}

impl Decoder for GpuExecutor {
    fn decode(
        &mut self,
        batch: Batch,
        start: Start<'_>,
        sequences: &[Continuation<'_>],
        ahead: Ahead,
        on_tokens: OnTokens<'_>,
    ) -> Result<DecodeReport, RuntimeError> {
        // Within a budget there is no room to go back to.
        let ahead = if self.shared.weights.lock().capacity().is_some() { Ahead::Breakable(1) } else { ahead };
        let batch = self.padded(batch);
        let shape = batch.shape();
        let timeline = self.shared.device.timeline().clone();
        let name = format!("{} sequences, {} tokens a step", sequences.len(), shape.tokens);
        let _span = timeline.span(Track::Decode, name);
        let mut kept = std::mem::take(&mut self.kept);
        let result = self.decode_with(&mut kept, batch, start, sequences, ahead, on_tokens);
        self.kept = kept;
        if result.as_ref().is_ok_and(|report| report.timed_out) {
            self.disable_persistent(&shape);
        }
        result
    }

    fn check_decode(
        &self,
        start: Start<'_>,
        sequences: &[Continuation<'_>],
        prefilled: &[Sequence<'_>],
    ) -> Result<Batch, RuntimeError> {
        if !self.can_decode() {
            return Err(DecodeError::Unsupported.into());
        }
        if sequences.is_empty() {
            return Err(DecodeError::NoSequences.into());
        }
        let vocab = self.shared.model.shape().vocab;
        for (i, sequence) in sequences.iter().enumerate() {
            check(i, sequence, vocab)?;
        }
        let (what, got, want) = match start {
            Start::Logits(logits) => ("logits", logits.len(), sequences.len() * vocab as usize),
            Start::Kept if self.kept.logits.is_none() || sequences.len() != 1 => {
                return Err(DecodeError::NotKept.into());
            }
            Start::Kept => ("logits", 1, 1),
            Start::Tokens(tokens) => ("tokens", tokens.len(), sequences.len()),
        };
        if got != want {
            return Err(DecodeError::Start { what, got, want }.into());
        }
        let pack = |i: usize, tokens| Sequence { slot: sequences[i].slot, tokens, outputs: Outputs::Last };
        let mut rows: Vec<Sequence<'_>> = match start {
            Start::Logits(_) | Start::Kept => (0..sequences.len()).map(|i| pack(i, &[0])).collect(),
            Start::Tokens(tokens) => (0..sequences.len()).map(|i| pack(i, &tokens[i..=i])).collect(),
        };
        rows.extend(prefilled.iter().map(|sequence| Sequence { outputs: Outputs::None, ..*sequence }));
        Ok(Batch::pack(&rows, vocab, self.states.slots)?)
    }
}
