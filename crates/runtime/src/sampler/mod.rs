//! The sampler: chooses the next token of each sequence from the logits of a step, on the device, and writes it to where the
//! next step reads its tokens.
//!
//! A sequence that has ended must not move on in the steps that run already. Its row of the segment table is therefore
//! pointed at a spare slot: later steps read and write a state that is never read. That costs nothing, no kernel knows of
//! it, and the state of the sequence is exactly that after the tokens before its last.

mod adjustments;
mod settings;

use crate::decode::{Continuation, Logprob};
use crate::pipelines::Pipelines;
use crate::schedule::storage_bytes;
use crate::{Device, RuntimeError};
use settings::Settings;
pub(crate) use settings::{Progress, Standing, check};
use wgoose_kernels::{Catalogue, Kernel, KernelError, Limits, PlanError, dispatch_size, sampling};

/// Of what size a sampler is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SamplerSize {
    pub(crate) sequences: u32,
    pub(crate) vocab: u32,
    /// The slot that ended sequences use from then on.
    pub(crate) spare: u32,
    /// Whether the logit of any token of any sequence is adjusted: a penalty or a bias.
    pub(crate) adjusts: bool,
    /// Whether only some tokens are allowed for any sequence.
    pub(crate) masks: bool,
    /// Whether any sequence asks for log-probabilities.
    pub(crate) lists: bool,
}

impl SamplerSize {
    /// Of a sampler for these sequences, in a step with that many rows of logits.
    pub(crate) fn of(sequences: &[Continuation<'_>], rows: u32, vocab: u32, spare: u32) -> Self {
        let adjusts = sequences.iter().any(Continuation::is_adjusted);
        let masks = sequences.iter().any(|s| s.allowed.is_some());
        let lists = sequences.iter().any(|s| s.listed.is_some());
        SamplerSize { sequences: rows, vocab, spare, adjusts, masks, lists }
    }

    /// Bytes of a table `[B, V]`.
    fn matrix(&self) -> u64 {
        u64::from(self.sequences) * u64::from(self.vocab) * 4
    }

    /// Bytes of the masks, `[B, ceil(V / 32)]`.
    fn masks(&self) -> u64 {
        u64::from(self.sequences) * u64::from(self.vocab.div_ceil(32)) * 4
    }

    /// Bytes of the adjustments, `[B, V]`.
    fn adjustments(&self) -> u64 {
        u64::from(self.sequences) * u64::from(self.vocab) * sampling::ADJUSTMENT_BYTES
    }

    /// Bytes of the log-probabilities, `[B, MOST_LISTED]`.
    fn logprobs(&self) -> u64 {
        u64::from(self.sequences) * (sampling::MOST_LISTED * size_of::<Logprob>()) as u64
    }

    /// The buffers of its own, as kernels call them, and their bytes.
    fn buffers(&self) -> [(&'static str, u64); 9] {
        let (rows, matrix) = (u64::from(self.sequences), self.matrix());
        [
            ("settings", rows * size_of::<Settings>() as u64),
            ("progress", rows * size_of::<Progress>() as u64),
            ("adjustments", if self.adjusts { self.adjustments() } else { 0 }),
            ("masks", if self.masks { self.masks() } else { 0 }),
            ("logprobs", if self.lists { self.logprobs() } else { 0 }),
            ("scores", matrix),
            ("slices", rows * u64::from(sampling::slices(self.vocab)) * sampling::SLICE_BYTES),
            ("bests", rows * sampling::BEST_BYTES),
            ("histogram", rows * sampling::HISTOGRAM_BYTES),
        ]
    }
}

/// The buffers of a step that the sampler reads and writes.
pub(crate) struct Wiring {
    /// Which buffers these are: their generation, and the slot of the logits.
    pub(crate) identity: (u64, usize),
    /// `[B, V]`.
    pub(crate) logits: wgpu::Buffer,
    /// `[B]`; the next token.
    pub(crate) tokens: wgpu::Buffer,
    /// `[B, 4]`; the slot of what has ended.
    pub(crate) segments: wgpu::Buffer,
    /// Says whether the step timed out: then no token is chosen, and everything stays as it is.
    pub(crate) grid_barrier: wgpu::Buffer,
}

/// Chooses tokens for a fixed number of sequences.
pub(crate) struct Sampler {
    size: SamplerSize,
    /// [`Wiring::identity`].
    wired: (u64, usize),
    settings: wgpu::Buffer,
    progress: wgpu::Buffer,
    adjustments: wgpu::Buffer,
    masks: wgpu::Buffer,
    logprobs: wgpu::Buffer,
    scores: wgpu::Buffer,
    /// Of all buffers of its own.
    bytes: u64,
    /// What a step runs.
    stages: Vec<Stage>,
}

/// A dispatch with everything it needs.
struct Stage {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    grid: [u32; 3],
}

impl Sampler {
    /// The kernels of a step of that many sequences.
    ///
    /// # Errors
    /// The device cannot run them.
    pub(crate) fn kernels(
        sequences: u32,
        vocab: u32,
        limits: &Limits,
        catalogue: &Catalogue,
    ) -> Result<[Kernel; 3], RuntimeError> {
        let scores = sampling::scores(sequences, vocab, limits, catalogue).map_err(of_kernel)?;
        let histogram = sampling::histogram(sequences, vocab, limits, catalogue).map_err(of_kernel)?;
        Ok([scores, histogram, sampling::sample(sequences, limits, catalogue).map_err(of_kernel)?])
    }

    /// Compiles and binds everything.
    ///
    /// # Errors
    /// The device cannot run the kernels, or has no memory left.
    pub(crate) fn new(
        device: &Device,
        pipelines: &mut Pipelines,
        catalogue: &Catalogue,
        size: SamplerSize,
        wiring: &Wiring,
    ) -> Result<Self, RuntimeError> {
        let (SamplerSize { sequences, vocab, spare, .. }, limits) = (size, device.limits());
        let tables =
            [("the scores of all sequences", size.matrix()), ("the adjustments of all logits", size.adjustments())];
        let is_made = |(_, need): &(&str, u64)| *need == size.matrix() || size.adjusts;
        let limit = limits.storage_binding;
        if let Some((what, need)) = tables.into_iter().filter(is_made).find(|(_, need)| *need > limit) {
            return Err(RuntimeError::ValueTooLarge { what, need, limit });
        }
        let mut kernels = Sampler::kernels(sequences, vocab, limits, catalogue)?.to_vec();
        if size.lists {
            kernels.push(sampling::logprobs(sequences, limits, catalogue).map_err(of_kernel)?);
        }
        pipelines.compile(&kernels.iter().collect::<Vec<_>>())?;
        let params = device.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("params"),
            size: 16,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        device.queue.write_buffer(&params, 0, bytemuck::cast_slice(&[vocab, sequences, spare, 0]));
        let own = size.buffers().map(|(name, bytes)| (name, device.storage(name, bytes)));
        let bytes = own.iter().map(|(_, buffer)| buffer.size()).sum();
        let given = [
            ("params", &params),
            ("logits", &wiring.logits),
            ("tokens", &wiring.tokens),
            ("segments", &wiring.segments),
            ("grid_barrier", &wiring.grid_barrier),
        ];
        let buffers: Vec<(&str, &wgpu::Buffer)> = given.into_iter().chain(own.iter().map(|(n, b)| (*n, b))).collect();
        let stage = |kernel: &Kernel| Stage::new(device, pipelines, kernel, &buffers);
        let stages = kernels.iter().map(stage).collect::<Result<_, _>>()?;
        device.check("preparing to sample")?;
        let [settings, progress, adjustments, masks, logprobs, scores, ..] = own.map(|(_, buffer)| buffer);
        let wired = wiring.identity;
        let sampler = Sampler { size, wired, settings, progress, adjustments, masks, logprobs, scores, bytes, stages };
        Ok(sampler)
    }

    /// Whether it is of that size and wired so.
    pub(crate) fn is(&self, size: SamplerSize, identity: (u64, usize)) -> bool {
        self.size == size && self.wired == identity
    }

    /// Whether it is wired to buffers of that generation.
    pub(crate) fn is_of(&self, generation: u64) -> bool {
        self.wired.0 == generation
    }

    /// Begins with these sequences, at most as many as it was made for, none of whose tokens was chosen yet. The rows
    /// behind them have ended.
    ///
    /// # Errors
    /// The device cannot run the kernel that fills in adjustments.
    pub(crate) fn begin(
        &self,
        device: &Device,
        pipelines: &mut Pipelines,
        catalogue: &Catalogue,
        sequences: &[Continuation<'_>],
    ) -> Result<(), RuntimeError> {
        let settings: Vec<Settings> = sequences.iter().map(Settings::of).collect();
        let mut progress: Vec<Progress> = sequences.iter().map(Progress::before).collect();
        progress.resize(self.size.sequences as usize, Progress::padding());
        device.queue.write_buffer(&self.settings, 0, bytemuck::cast_slice(&settings));
        device.queue.write_buffer(&self.progress, 0, bytemuck::cast_slice(&progress));
        let words = u64::from(self.size.vocab.div_ceil(32)) * 4;
        for (row, allowed) in (0..).zip(sequences).filter_map(|(row, sequence)| Some((row, sequence.allowed?))) {
            device.queue.write_buffer(&self.masks, row * words, bytemuck::cast_slice(allowed));
        }
        match self.size.adjusts {
            true => self.adjust(device, pipelines, catalogue, sequences),
            false => Ok(()),
        }
    }

    /// Appends choosing the next tokens.
    pub(crate) fn encode(&self, pass: &mut wgpu::ComputePass<'_>) {
        self.stages.iter().for_each(|stage| stage.encode(pass));
    }

    /// Log-probabilities of the last step, `[B, MOST_LISTED]` of [`Logprob`], if a sequence asks for them.
    pub(crate) fn logprobs(&self) -> Option<&wgpu::Buffer> {
        self.size.lists.then_some(&self.logprobs)
    }

    /// How far each sequence has come: `[B]` of [`Progress`].
    pub(crate) fn progress(&self) -> &wgpu::Buffer {
        &self.progress
    }

    /// The weights from which tokens were drawn last, `[B, V]`; 0 for those not kept. Nothing of greedy sequences.
    pub(crate) fn weights(&self) -> &wgpu::Buffer {
        &self.scores
    }

    /// Most bytes that one for that many sequences holds on the device.
    pub(crate) fn most_bytes(sequences: usize, vocab: u32) -> u64 {
        let (sequences, is) = (sequences as u32, true);
        let size = SamplerSize { sequences, vocab, spare: 0, adjusts: is, masks: is, lists: is };
        size.buffers().into_iter().map(|(_, bytes)| storage_bytes(bytes)).sum()
    }

    /// Bytes it holds on the device.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn of_kernel(why: KernelError) -> PlanError {
    PlanError::of_kernel("sampling", why)
}

impl Stage {
    fn new(
        device: &Device,
        pipelines: &Pipelines,
        kernel: &Kernel,
        buffers: &[(&str, &wgpu::Buffer)],
    ) -> Result<Self, RuntimeError> {
        let too_large =
            || RuntimeError::DispatchTooLarge { kernel: kernel.label.clone(), workgroups: kernel.workgroups };
        let grid = dispatch_size(kernel.workgroups, device.limits()).ok_or_else(too_large)?;
        let pipeline = pipelines.get(&kernel.hash).ok_or_else(too_large)?;
        let bindings = kernel.facts.bindings.iter();
        let entries: Vec<wgpu::BindGroupEntry<'_>> = bindings
            .filter_map(|b| Some((b.number, buffers.iter().find(|(name, _)| *name == b.name)?.1)))
            .map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() })
            .collect();
        let layout = &pipeline.layout;
        let descriptor = wgpu::BindGroupDescriptor { label: None, layout, entries: &entries };
        let group = device.device.create_bind_group(&descriptor);
        Ok(Stage { pipeline: pipeline.pipeline.clone(), group, grid })
    }

    fn encode(&self, pass: &mut wgpu::ComputePass<'_>) {
        let [x, y, z] = self.grid;
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.group, &[]);
        pass.dispatch_workgroups(x, y, z);
    }
}
