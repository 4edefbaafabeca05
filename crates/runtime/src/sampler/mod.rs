//! The sampler: chooses the next token of each sequence from the logits of a step, on the device, and writes it to where the
//! next step reads its tokens.
//!
//! A sequence that has ended must not move on in the steps that run already. Its row of the segment table is therefore
//! pointed at a spare slot: later steps read and write a state that is never read. That costs nothing, no kernel knows of
//! it, and the state of the sequence is exactly that after the tokens before its last.

mod settings;

use crate::decode::Continuation;
use crate::pipelines::Pipelines;
use crate::schedule::storage_bytes;
use crate::{Device, RuntimeError};
use settings::Settings;
pub(crate) use settings::{Progress, Standing, check};
use wgoose_kernels::{Catalogue, Kernel, Limits, PlanError, dispatch_size, sampling};

/// Of what size a sampler is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SamplerSize {
    pub(crate) sequences: u32,
    pub(crate) vocab: u32,
    /// The slot that ended sequences use from then on.
    pub(crate) spare: u32,
    /// Whether any sequence has penalties, for which tokens are counted.
    pub(crate) counts: bool,
    /// Whether any token of any sequence has a bias.
    pub(crate) biases: bool,
}

impl SamplerSize {
    /// Of a sampler for these sequences, in a step with that many rows of logits.
    pub(crate) fn of(sequences: &[Continuation<'_>], rows: u32, vocab: u32, spare: u32) -> Self {
        let counts = sequences.iter().any(|s| s.sampling.penalties.any());
        let biases = sequences.iter().any(|s| !s.bias.is_empty());
        SamplerSize { sequences: rows, vocab, spare, counts, biases }
    }

    /// Bytes of a table `[B, V]`.
    fn matrix(&self) -> u64 {
        u64::from(self.sequences) * u64::from(self.vocab) * 4
    }

    /// The buffers of its own, as kernels call them, and their bytes.
    fn buffers(&self) -> [(&'static str, u64); 8] {
        let (rows, matrix) = (u64::from(self.sequences), self.matrix());
        [
            ("settings", rows * size_of::<Settings>() as u64),
            ("progress", rows * size_of::<Progress>() as u64),
            ("counts", if self.counts { matrix } else { 0 }),
            ("biases", if self.biases { matrix } else { 0 }),
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
    counts: wgpu::Buffer,
    biases: wgpu::Buffer,
    scores: wgpu::Buffer,
    /// Of all buffers of its own.
    bytes: u64,
    stages: [Stage; 3],
}

/// A dispatch with everything it needs.
struct Stage {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    grid: [u32; 3],
}

impl Sampler {
    /// The kernels for so many sequences.
    ///
    /// # Errors
    /// The device cannot run them.
    pub(crate) fn kernels(
        sequences: u32,
        vocab: u32,
        limits: &Limits,
        catalogue: &Catalogue,
    ) -> Result<[Kernel; 3], RuntimeError> {
        let failed = |e| PlanError::of_kernel("sampling", e);
        let scores = sampling::scores(sequences, vocab, limits, catalogue).map_err(failed)?;
        let histogram = sampling::histogram(sequences, vocab, limits, catalogue).map_err(failed)?;
        Ok([scores, histogram, sampling::sample(sequences, limits, catalogue).map_err(failed)?])
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
        if size.matrix() > limits.storage_binding {
            let (what, limit) = ("the scores of all sequences", limits.storage_binding);
            return Err(RuntimeError::ValueTooLarge { what, need: size.matrix(), limit });
        }
        let kernels = Sampler::kernels(sequences, vocab, limits, catalogue)?;
        pipelines.compile(&kernels.each_ref())?;
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
        let stages = [stage(&kernels[0])?, stage(&kernels[1])?, stage(&kernels[2])?];
        device.check("preparing to sample")?;
        let [settings, progress, counts, biases, scores, ..] = own.map(|(_, buffer)| buffer);
        Ok(Sampler { size, wired: wiring.identity, settings, progress, counts, biases, scores, bytes, stages })
    }

    /// Whether it is of that size and wired so.
    pub(crate) fn is(&self, size: SamplerSize, identity: (u64, usize)) -> bool {
        self.size == size && self.wired == identity
    }

    /// Begins with these sequences, at most as many as it was made for, none of whose tokens was chosen yet. The rows
    /// behind them have ended.
    pub(crate) fn begin(&self, device: &Device, sequences: &[Continuation<'_>]) {
        let settings: Vec<Settings> = sequences.iter().map(Settings::of).collect();
        let mut progress: Vec<Progress> = sequences.iter().map(Progress::before).collect();
        progress.resize(self.size.sequences as usize, Progress::padding());
        device.queue.write_buffer(&self.settings, 0, bytemuck::cast_slice(&settings));
        device.queue.write_buffer(&self.progress, 0, bytemuck::cast_slice(&progress));
        if self.size.counts {
            self.fill(device, &self.counts, sequences.iter().map(|s| s.chosen));
        }
        if self.size.biases {
            self.fill(device, &self.biases, sequences.iter().map(|s| s.bias));
        }
    }

    /// Writes a table `[B, V]`, given what is not 0 in each row.
    fn fill<'a>(&self, device: &Device, table: &wgpu::Buffer, rows: impl Iterator<Item = &'a [(u32, f32)]>) {
        let vocab = self.size.vocab as usize;
        let mut values = vec![0.0f32; self.size.sequences as usize * vocab];
        for (row, entries) in values.chunks_exact_mut(vocab).zip(rows) {
            entries.iter().for_each(|(token, value)| row[*token as usize] = *value);
        }
        device.queue.write_buffer(table, 0, bytemuck::cast_slice(&values));
    }

    /// Appends choosing the next tokens.
    pub(crate) fn encode(&self, pass: &mut wgpu::ComputePass<'_>) {
        for stage in &self.stages {
            let [x, y, z] = stage.grid;
            pass.set_pipeline(&stage.pipeline);
            pass.set_bind_group(0, &stage.group, &[]);
            pass.dispatch_workgroups(x, y, z);
        }
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
        let size = SamplerSize { sequences: sequences as u32, vocab, spare: 0, counts: true, biases: true };
        size.buffers().into_iter().map(|(_, bytes)| storage_bytes(bytes)).sum()
    }

    /// Bytes it holds on the device.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
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
}
