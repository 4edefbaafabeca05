//! The GPU executor: records a pass once per batch shape, then replays it.

mod cold_start;
mod decode;
mod graphs;
mod memory;
mod passes;
mod persistent;
mod profile;
mod states;
mod step;
mod stopwatch;
mod trace;

use crate::batch::PassShape;
use crate::pipelines::Pipelines;
use crate::report::LoadReport;
use crate::schedule::{Choose, Recording, Table, Tensors, record};
use crate::timeline::Track;
use crate::weights::Weights;
use crate::{Batch, Device, Executor, RuntimeError, StateData, Traced};
pub use graphs::Graphs;
use persistent::{BARRIER_BYTES, PersistentCache};
use states::{StateSize, States};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use step::Step;
use wgoose_graph::{BatchShape, Format, Graph, ModelShape, State, Target, Weight, WeightClass, rewrite, rwkv7};
use wgoose_kernels::{Catalogue, Plan, Precision};
use wgoose_loader::Model;

/// Passes kept ready to be replayed; a new batch shape past that number drops them all.
const STEPS_KEPT: usize = 64;

/// Runs a plan on a device.
pub struct GpuExecutor {
    device: Arc<Device>,
    model: Arc<Model>,
    plan: Plan,
    catalogue: Arc<Catalogue>,
    graphs: Graphs,
    /// For passes that end in hidden states, made on first use.
    hidden: HashMap<Target, Graph>,
    slots: usize,
    /// Whether there is one more slot, for sequences that have ended while steps were in flight.
    has_spare: bool,
    weights: Arc<Mutex<Weights>>,
    pipelines: Arc<Mutex<Pipelines>>,
    states: States,
    arena: Vec<wgpu::Buffer>,
    tables: HashMap<Table, wgpu::Buffer>,
    /// For results of passes, while none is copied there.
    staging: Vec<wgpu::Buffer>,
    /// The same for states.
    state_staging: Option<wgpu::Buffer>,
    steps: HashMap<PassShape, Step>,
    persistent: PersistentCache,
    /// The counters of persistent kernels; see `kernels-wgsl/device/grid_barrier.wgsl`.
    grid_barrier: wgpu::Buffer,
    decoder: decode::Decoder,
    steps_kept: usize,
    /// [`Weights::dropped`] when steps were bound last: executors share the weights.
    weights_dropped: u64,
}

/// A panic elsewhere leaves nothing half done in these: what was inserted is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of each table of a batch.
/// Tiles whose workgroups a kernel can count: as `MAX_TILES` in kernels-wgsl/lib/coop/splitk.wgsl.
pub(crate) const ARRIVALS: u32 = 4096;

fn table_bytes(batch: &BatchShape) -> [(Table, u64); 5] {
    let sizes = [
        (Table::Tokens, batch.tokens),
        (Table::TokenSegments, batch.tokens),
        (Table::Segments, 4 * batch.segments),
        (Table::Outputs, batch.outputs),
        (Table::Arrivals, ARRIVALS),
    ];
    sizes.map(|(table, len)| (table, u64::from(len) * 4))
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
        catalogue: Arc<Catalogue>,
        slots: usize,
    ) -> Result<Self, RuntimeError> {
        let graphs = Graphs::new(model.shape(), &plan.fusions, device.timeline())?;
        Self::with_graphs(device, model, graphs, plan, catalogue, slots)
    }

    /// As [`GpuExecutor::new`], for graphs that were made before.
    ///
    /// # Errors
    /// The plan's kernels do not fit the model, or a graph is illegal.
    pub fn with_graphs(
        device: Arc<Device>,
        model: Arc<Model>,
        graphs: Graphs,
        plan: Plan,
        catalogue: Arc<Catalogue>,
        slots: usize,
    ) -> Result<Self, RuntimeError> {
        plan.check_kernels(model.shape(), &catalogue)?;
        let span = device.timeline().span(Track::Allocate, "state");
        let size = |slots| StateSize { shape: model.shape(), wkv: plan.state, slots };
        let has_spare = States::fit(&device, size(slots + 1));
        let states = States::new(&device, size(slots + usize::from(has_spare)))?;
        let grid_barrier = device.storage("grid barrier", BARRIER_BYTES);
        drop(span);
        Ok(GpuExecutor {
            weights: Arc::new(Mutex::new(Weights::new(Arc::clone(&device), Arc::clone(&model)))),
            pipelines: Arc::new(Mutex::new(Pipelines::new(Arc::clone(&device)))),
            device,
            model,
            plan,
            catalogue,
            graphs,
            hidden: HashMap::new(),
            slots,
            has_spare,
            states,
            arena: Vec::new(),
            tables: HashMap::new(),
            staging: Vec::new(),
            state_staging: None,
            steps: HashMap::new(),
            persistent: PersistentCache::default(),
            grid_barrier,
            decoder: decode::Decoder::default(),
            steps_kept: STEPS_KEPT,
            weights_dropped: 0,
        })
    }

    /// Another executor with a plan and state of its own, sharing this one's weights and compiled kernels.
    ///
    /// # Errors
    /// As [`GpuExecutor::new`].
    pub fn sharing_weights(&self, plan: Plan, slots: usize) -> Result<Self, RuntimeError> {
        let (device, model) = (Arc::clone(&self.device), Arc::clone(&self.model));
        let mut other = GpuExecutor::new(device, model, plan, self.catalogue.clone(), slots)?;
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

    /// The least precise arithmetic of its kernels.
    pub fn precision(&self) -> Precision {
        self.plan.least_precise(&self.catalogue)
    }

    /// What a pass over a batch of that shape does.
    ///
    /// # Errors
    /// No kernel serves an op here, or a value is larger than the device binds.
    pub fn record(&self, batch: &BatchShape) -> Result<Recording, RuntimeError> {
        self.record_pass(&PassShape::from(*batch))
    }

    /// As [`GpuExecutor::record`]. For a target other than logits there must be a graph.
    fn record_pass(&self, pass: &PassShape) -> Result<Recording, RuntimeError> {
        let tensors = Tensors {
            format: &|weight| self.format(weight),
            shards: &|weight| {
                let shards = lock(&self.weights).shards(weight, self.format(weight))?;
                Ok(shards.iter().map(|w| w.first..w.first + w.rows).collect())
            },
        };
        let like_rows = (pass.target != Target::Logits).then_some(self.plan.prefill_chunk);
        let limits = &self.plan.limits(self.device.limits());
        let choose = Choose { plan: &self.plan, like_rows, limits, catalogue: &self.catalogue };
        record(self.graph(pass), &pass.batch, &tensors, &choose)
    }

    fn graph(&self, pass: &PassShape) -> &Graph {
        match pass.target {
            Target::Logits => self.graphs.of(&pass.batch),
            target => &self.hidden[&target],
        }
    }

    /// Makes the graph for a target, if there is none yet.
    fn make_graph(&mut self, target: Target) -> Result<(), RuntimeError> {
        if target != Target::Logits && !self.hidden.contains_key(&target) {
            let mut graph = rwkv7::forward_to(self.model.shape(), target)?;
            rewrite::apply(&mut graph, &self.plan.fusions.prefill)?;
            self.hidden.insert(target, graph);
        }
        Ok(())
    }

    /// The format that a weight has on the device.
    fn format(&self, weight: Weight) -> Format {
        match weight.class() {
            WeightClass::Vector => Format::F32,
            WeightClass::Adapter | WeightClass::Matrix => {
                self.plan.format_on_gpu(weight, self.model.tensor(weight).format())
            }
        }
    }

    /// Makes everything a batch of that shape needs: pipelines, buffers, the weights that stay.
    ///
    /// # Errors
    /// No kernel serves an op, the file cannot be read any more, or the device fails.
    pub fn prepare(&mut self, batch: &BatchShape) -> Result<(), RuntimeError> {
        let pass = PassShape::from(*batch);
        match self.open_step(&pass)? {
            step if step.ready => self.keep_step(pass, Ok(step)),
            mut step => {
                let started = self.cold_start(&mut step, false).map(|()| step);
                self.keep_step(pass, started)
            }
        }
    }

    /// Takes out the step for a shape, or makes it.
    fn open_step(&mut self, pass: &PassShape) -> Result<Step, RuntimeError> {
        let dropped = lock(&self.weights).dropped;
        if std::mem::replace(&mut self.weights_dropped, dropped) != dropped {
            self.forget_steps();
        }
        if let Some(step) = self.steps.remove(pass) {
            return Ok(step);
        }
        self.make_graph(pass.target)?;
        let span = self.device.timeline().span(Track::Schedule, "record");
        let recording = self.record_pass(pass)?;
        drop(span);
        let tables = table_bytes(&pass.batch);
        let grown_tables = tables.iter().any(|(t, bytes)| self.tables.get(t).is_none_or(|b| b.size() < *bytes));
        let slots: Vec<u64> = recording.arena.slot_len.iter().map(|len| len * 4).collect();
        let grown_slots =
            slots.iter().enumerate().any(|(i, bytes)| self.arena.get(i).is_none_or(|b| b.size() < *bytes));
        if grown_tables || grown_slots || self.steps.len() >= self.steps_kept {
            // What is bound to the old buffers goes with them.
            self.forget_steps();
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
        self.device.check("allocating activations")?;
        Step::new(self, recording)
    }

    /// Puts a step back; after a failure nothing that was half done is kept.
    fn keep_step(&mut self, pass: PassShape, step: Result<Step, RuntimeError>) -> Result<(), RuntimeError> {
        match step {
            Ok(step) => {
                self.steps.insert(pass, step);
                Ok(())
            }
            Err(e) => {
                self.forget_steps();
                lock(&self.weights).forget();
                Err(e)
            }
        }
    }

    pub(super) fn forget_steps(&mut self) {
        self.steps.clear();
        self.persistent.forget();
    }

    fn write_tables(&self, batch: &Batch) {
        let contents: [(Table, &[u8]); 4] = [
            (Table::Tokens, bytemuck::cast_slice(&batch.tokens)),
            (Table::TokenSegments, bytemuck::cast_slice(&batch.token_segments)),
            (Table::Segments, bytemuck::cast_slice(&batch.segments)),
            (Table::Outputs, bytemuck::cast_slice(&batch.outputs)),
        ];
        for (table, data) in contents {
            if !data.is_empty() {
                self.device.queue.write_buffer(&self.tables[&table], 0, data);
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
        let mut result = Vec::new();
        self.run_passes(&mut std::iter::once(batch.clone()), &[], &mut |all| result = all)?;
        Ok(result)
    }

    fn run_each(
        &mut self,
        batches: &mut dyn Iterator<Item = Batch>,
        states: &[(usize, State)],
        on_result: &mut dyn FnMut(Vec<f32>),
    ) -> Result<Vec<Vec<f32>>, RuntimeError> {
        self.run_passes(batches, states, on_result)
    }

    fn trace(&mut self, batch: &Batch, on_value: &mut dyn FnMut(&Traced<'_>)) -> Result<Vec<f32>, RuntimeError> {
        self.trace_values(batch, on_value)
    }

    fn state_tensor(&mut self, slot: usize, tensor: State) -> Result<Vec<f32>, RuntimeError> {
        self.read_state(slot, tensor)
    }

    fn state_bytes(&self) -> u64 {
        State::all(self.model.shape()).map(|state| self.states.place(state).slot_bytes).sum()
    }

    fn set_state(&mut self, slot: usize, state: &StateData) -> Result<(), RuntimeError> {
        state.check(self.model.shape())?;
        for (tensor, data) in &state.0 {
            let place = self.states.place(*tensor);
            self.device.queue.write_buffer(&place.buffer, place.at(slot), &place.encode(data));
        }
        self.device.check("writing state")
    }

    fn reset(&mut self, slots: Range<usize>) -> Result<(), RuntimeError> {
        let mut encoder = self.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for state in State::all(self.model.shape()) {
            let place = self.states.place(state);
            encoder.clear_buffer(&place.buffer, place.at(slots.start), Some(slots.len() as u64 * place.slot_bytes));
        }
        self.device.queue.submit([encoder.finish()]);
        self.device.check("clearing states")
    }

    fn grow(&mut self, slots: usize) -> Result<usize, RuntimeError> {
        self.add_slots(slots)
    }

    fn fork(&self) -> Result<Box<dyn Executor>, RuntimeError> {
        let mut other = self.sharing_weights(self.plan.clone(), 1)?;
        other.steps_kept = self.steps_kept;
        Ok(Box::new(other))
    }

    fn decoder(&mut self) -> Option<&mut GpuExecutor> {
        self.can_decode().then_some(self)
    }

    fn max_outputs(&self) -> usize {
        if let Some(room) = lock(&self.weights).capacity() {
            return room.outputs as usize;
        }
        let limits = self.device.limits();
        let row = u64::from(self.model.shape().vocab) * 4;
        (limits.storage_binding.min(limits.buffer) / row) as usize
    }

    fn report(&self) -> LoadReport {
        let taken = lock(&self.weights).taken;
        let device = self.device.memory();
        LoadReport {
            uploaded: taken.bytes,
            upload_seconds: taken.seconds,
            pipelines: lock(&self.pipelines).counts(),
            footprint: self.footprint(),
            peak_staging: taken.staging,
            device,
            peak_device: taken.device.or(device),
            persistent: self.persistent.status(),
        }
    }
}
