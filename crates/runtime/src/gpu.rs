//! The GPU executor: records a pass once per batch shape, then replays it.

use crate::pipelines::Pipelines;
use crate::schedule::{Bound, Recording, Table, Tensors, record};
use crate::weights::Weights;
use crate::{Batch, Device, Executor, PipelineCounts, RuntimeError, StateData};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wgoose_graph::{BatchShape, FusionSet, Graph, ModelShape, State, rewrite, rwkv7};
use wgoose_kernels::{Kernel, Plan, Sources};
use wgoose_loader::Model;

/// Passes kept ready to be replayed; a new batch shape past that number drops them all.
const STEPS_KEPT: usize = 64;

/// Runs a plan on a device.
pub struct GpuExecutor {
    device: Arc<Device>,
    model: Arc<Model>,
    plan: Plan,
    sources: Sources,
    /// For passes with one token per sequence.
    decode: Graph,
    /// For all others.
    prefill: Graph,
    slots: usize,
    weights: Arc<Mutex<Weights>>,
    pipelines: Arc<Mutex<Pipelines>>,
    states: HashMap<State, wgpu::Buffer>,
    arena: Vec<wgpu::Buffer>,
    tables: HashMap<Table, wgpu::Buffer>,
    staging: Option<wgpu::Buffer>,
    steps: HashMap<BatchShape, Step>,
}

/// A panic elsewhere leaves nothing half done in these: what was inserted is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pass ready to be encoded.
struct Step {
    dispatches: Vec<(wgpu::ComputePipeline, wgpu::BindGroup, [u32; 3])>,
    output: Option<usize>,
}

impl GpuExecutor {
    /// Prepares to run a plan with `slots` sequences; no weight is uploaded yet.
    ///
    /// # Errors
    /// The plan does not fit the model, or its fusions leave an illegal graph.
    pub fn new(
        device: Arc<Device>,
        model: Arc<Model>,
        plan: Plan,
        sources: Sources,
        slots: usize,
    ) -> Result<Self, RuntimeError> {
        plan.check_kernels(model.shape(), &sources)?;
        let graph = |fusions: &FusionSet| -> Result<Graph, RuntimeError> {
            let mut graph = rwkv7::forward(model.shape())?;
            rewrite::apply(&mut graph, fusions)?;
            Ok(graph)
        };
        let graphs = [graph(&plan.fusions.decode)?, graph(&plan.fusions.prefill)?];
        Self::with_graphs(device, model, graphs, plan, sources, slots)
    }

    /// As [`GpuExecutor::new`], for graphs (decode, prefill) that were changed by hand: experiments, and tests that
    /// break them.
    ///
    /// # Errors
    /// A graph is illegal.
    pub fn with_graphs(
        device: Arc<Device>,
        model: Arc<Model>,
        [decode, prefill]: [Graph; 2],
        plan: Plan,
        sources: Sources,
        slots: usize,
    ) -> Result<Self, RuntimeError> {
        wgoose_graph::check(&decode)?;
        wgoose_graph::check(&prefill)?;
        let shape = *model.shape();
        let limit = device.limits().storage_binding;
        let mut states = HashMap::new();
        for state in State::all(&shape) {
            let need = slots as u64 * state.len(&shape) as u64 * 4;
            if need > limit {
                return Err(RuntimeError::ValueTooLarge { what: "the state of all sequences", need, limit });
            }
            states.insert(state, device.storage(&state.to_string(), need));
        }
        Ok(GpuExecutor {
            weights: Arc::new(Mutex::new(Weights::new(Arc::clone(&device), Arc::clone(&model)))),
            pipelines: Arc::new(Mutex::new(Pipelines::new(Arc::clone(&device)))),
            device,
            model,
            plan,
            sources,
            decode,
            prefill,
            slots,
            states,
            arena: Vec::new(),
            tables: HashMap::new(),
            staging: None,
            steps: HashMap::new(),
        })
    }

    /// Another executor with a plan and state of its own, sharing this one's weights and compiled kernels.
    ///
    /// # Errors
    /// As [`GpuExecutor::new`].
    pub fn sibling(&self, plan: Plan, slots: usize) -> Result<Self, RuntimeError> {
        let (device, model) = (Arc::clone(&self.device), Arc::clone(&self.model));
        let mut other = GpuExecutor::new(device, model, plan, self.sources.clone(), slots)?;
        other.weights = Arc::clone(&self.weights);
        other.pipelines = Arc::clone(&self.pipelines);
        Ok(other)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The plan being run.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What a pass over a batch of that shape does.
    ///
    /// # Errors
    /// No kernel serves an op here, or a value is larger than the device binds.
    pub fn record(&self, batch: &BatchShape) -> Result<Recording, RuntimeError> {
        let tensors = Tensors {
            format: &|weight| self.model.tensor(weight).format(),
            windows: &|weight| lock(&self.weights).windows(weight),
        };
        let graph = if batch.tokens == batch.segments { &self.decode } else { &self.prefill };
        record(graph, batch, &tensors, &self.plan, self.device.limits(), &self.sources)
    }

    /// Makes everything a batch of that shape needs: pipelines, weights, buffers.
    ///
    /// # Errors
    /// No kernel serves an op, or the device fails.
    pub fn prepare(&mut self, batch: &BatchShape) -> Result<(), RuntimeError> {
        if self.steps.contains_key(batch) {
            return Ok(());
        }
        let recording = self.record(batch)?;
        lock(&self.pipelines).compile(&recording.kernels.iter().collect::<Vec<&Kernel>>())?;
        let sizes = [
            (Table::Tokens, batch.tokens),
            (Table::TokenSegments, batch.tokens),
            (Table::Segments, 4 * batch.segments),
            (Table::Outputs, batch.outputs),
        ];
        let tables = sizes.map(|(table, len)| (table, u64::from(len) * 4));
        let grown_tables = tables.iter().any(|(t, bytes)| self.tables.get(t).is_none_or(|b| b.size() < *bytes));
        let slots: Vec<u64> = recording.arena.slot_len.iter().map(|len| len * 4).collect();
        let grown_slots =
            slots.iter().enumerate().any(|(i, bytes)| self.arena.get(i).is_none_or(|b| b.size() < *bytes));
        if grown_tables || grown_slots || self.steps.len() >= STEPS_KEPT {
            // What is bound to the old buffers goes with them.
            self.steps.clear();
        }
        for (table, bytes) in tables {
            if self.tables.get(&table).is_none_or(|b| b.size() < bytes) {
                self.tables.insert(table, self.device.storage("table", bytes));
            }
        }
        for (i, bytes) in slots.into_iter().enumerate() {
            match self.arena.get_mut(i) {
                Some(buffer) if buffer.size() < bytes => *buffer = self.device.storage("activations", bytes),
                Some(_) => {}
                None => self.arena.push(self.device.storage("activations", bytes)),
            }
        }
        let step = self.bind(&recording)?;
        self.device.check("preparing a pass")?;
        self.steps.insert(*batch, step);
        Ok(())
    }

    fn bind(&self, recording: &Recording) -> Result<Step, RuntimeError> {
        let align = 48u64.next_multiple_of(u64::from(self.device.limits().uniform_alignment));
        let mut blocks = vec![0u8; recording.dispatches.len() * align as usize];
        for (block, dispatch) in blocks.chunks_exact_mut(align as usize).zip(&recording.dispatches) {
            block[..48].copy_from_slice(bytemuck::cast_slice(&dispatch.params));
        }
        let params = self.device.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("params"),
            size: blocks.len() as u64,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        self.device.queue.write_buffer(&params, 0, &blocks);
        let (mut weights, pipelines) = (lock(&self.weights), lock(&self.pipelines));
        let mut dispatches = Vec::with_capacity(recording.dispatches.len());
        for (i, dispatch) in recording.dispatches.iter().enumerate() {
            let mut buffers = Vec::with_capacity(dispatch.bindings.len());
            for (number, bound) in &dispatch.bindings {
                buffers.push(match *bound {
                    Bound::Params => (*number, params.clone(), i as u64 * align, Some(48)),
                    Bound::Slot { slot, offset, size } => (*number, self.arena[slot].clone(), offset, Some(size)),
                    Bound::Weight(weight, window) => (*number, weights.buffer(weight, window)?, 0, None),
                    Bound::State(state) => (*number, self.states[&state].clone(), 0, None),
                    Bound::Table(table) => (*number, self.tables[&table].clone(), 0, None),
                });
            }
            let entries: Vec<wgpu::BindGroupEntry<'_>> = buffers
                .iter()
                .map(|(binding, buffer, offset, size)| wgpu::BindGroupEntry {
                    binding: *binding,
                    resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                        buffer,
                        offset: *offset,
                        size: size.and_then(std::num::NonZeroU64::new),
                    }),
                })
                .collect();
            let kernel = &recording.kernels[dispatch.kernel];
            let Some(pipeline) = pipelines.get(&kernel.hash) else { continue };
            let group = self.device.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &pipeline.layout,
                entries: &entries,
            });
            dispatches.push((pipeline.pipeline.clone(), group, dispatch.grid));
        }
        Ok(Step { dispatches, output: recording.output })
    }

    fn write_tables(&self, batch: &Batch) {
        let contents = [
            (Table::Tokens, &batch.tokens),
            (Table::TokenSegments, &batch.token_segments),
            (Table::Segments, &batch.segments),
            (Table::Outputs, &batch.outputs),
        ];
        for (table, data) in contents {
            if !data.is_empty() {
                self.device.queue.write_buffer(&self.tables[&table], 0, bytemuck::cast_slice(data));
            }
        }
    }
}

impl Executor for GpuExecutor {
    fn shape(&self) -> &ModelShape {
        self.model.shape()
    }

    fn slots(&self) -> usize {
        self.slots
    }

    fn run(&mut self, batch: &Batch) -> Result<Vec<f32>, RuntimeError> {
        self.prepare(&batch.shape())?;
        self.write_tables(batch);
        let step = &self.steps[&batch.shape()];
        let mut encoder = self.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            for (pipeline, group, [x, y, z]) in &step.dispatches {
                pass.set_pipeline(pipeline);
                pass.set_bind_group(0, group, &[]);
                pass.dispatch_workgroups(*x, *y, *z);
            }
        }
        let bytes = batch.outputs.len() as u64 * u64::from(self.model.shape().vocab) * 4;
        let Some(output) = step.output.filter(|_| bytes > 0) else {
            self.device.queue.submit([encoder.finish()]);
            self.device.wait("running a pass")?;
            return Ok(Vec::new());
        };
        if self.staging.as_ref().is_none_or(|s| s.size() < bytes) {
            self.staging = Some(self.device.staging(bytes));
        }
        let Some(staging) = &self.staging else { return Ok(Vec::new()) };
        encoder.copy_buffer_to_buffer(&self.arena[output], 0, staging, 0, bytes);
        self.device.queue.submit([encoder.finish()]);
        let data = self.device.read_staging(staging, bytes)?;
        Ok(bytemuck::pod_collect_to_vec(&data))
    }

    fn state(&mut self, slot: usize) -> Result<StateData, RuntimeError> {
        let mut data = Vec::new();
        for state in State::all(self.model.shape()) {
            let bytes = state.len(self.model.shape()) as u64 * 4;
            let raw = self.device.read(&self.states[&state], slot as u64 * bytes, bytes)?;
            data.push((state, bytemuck::pod_collect_to_vec(&raw)));
        }
        Ok(StateData(data))
    }

    fn set_state(&mut self, slot: usize, state: &StateData) -> Result<(), RuntimeError> {
        state.check(self.model.shape())?;
        for (piece, data) in &state.0 {
            let offset = slot as u64 * data.len() as u64 * 4;
            self.device.queue.write_buffer(&self.states[piece], offset, bytemuck::cast_slice(data));
        }
        self.device.check("writing state")
    }

    fn max_outputs(&self) -> usize {
        let limits = self.device.limits();
        let row = u64::from(self.model.shape().vocab) * 4;
        (limits.storage_binding.min(limits.buffer) / row) as usize
    }

    fn uploaded(&self) -> u64 {
        lock(&self.weights).uploaded()
    }

    fn pipelines(&self) -> PipelineCounts {
        lock(&self.pipelines).counts()
    }
}
