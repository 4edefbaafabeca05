//! The GPU executor: records a pass once per batch shape, then replays it.

mod buffers;
mod cold_start;
mod decode;
mod expected;
mod graphs;
mod memory;
mod passes;
mod persistent;
mod planned;
mod planner;
mod profile;
mod states;
mod step;
mod stopwatch;
mod trace;

use crate::batch::PassShape;
use crate::pipelines::{Compiler, Pipelines};
use crate::report::LoadReport;
use crate::residency::Weights;
use crate::schedule::{self, BufferId, Recording, Table};
use crate::timeline::Track;
use crate::{Batch, Decoder, Device, Executor, RuntimeError, StateData, Traced};
use buffers::Buffers;
use expected::Expected;
pub use graphs::Graphs;
use parking_lot::Mutex;
use persistent::{BARRIER_BYTES, PersistentCache};
pub use planned::Planned;
use planner::Planner;
use states::States;
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use step::Step;
use wgoose_graph::{BatchShape, ModelShape, State, Target};
use wgoose_kernels::{Catalogue, Plan, Precision, PrecisionClass};
use wgoose_loader::Model;

/// Passes kept ready to be replayed. A batch of 32 sequences whose passes are padded has about 200 shapes.
const STEPS_KEPT: usize = 256;

/// What executors of a model can share.
struct Shared {
    device: Arc<Device>,
    model: Arc<Model>,
    weights: Arc<Mutex<Weights>>,
    compiler: Compiler,
    pipelines: Arc<Mutex<Pipelines>>,
}

/// Passes that can be replayed.
struct Steps {
    /// As chains of dispatches.
    chains: HashMap<PassShape, Step>,
    /// Steps opened so far.
    opened: u64,
    /// Whether passes are padded to buckets.
    pads: bool,
    persistent: PersistentCache,
    expected: Expected,
    /// Most chains that are kept: a new shape past that number drops the one that was not used for longest.
    most: usize,
    /// [`Weights::dropped`] when steps were bound last: executors share the weights.
    weights_dropped: u64,
    /// Submissions of a pass, if anybody says how many.
    submissions: Option<NonZeroUsize>,
}

/// Buffers that are mapped, while nothing is copied there.
#[derive(Default)]
struct ReadBack {
    /// For results of passes.
    results: Vec<wgpu::Buffer>,
    /// For states.
    states: Option<wgpu::Buffer>,
}

/// Runs a plan on a device.
pub struct GpuExecutor {
    shared: Shared,
    planner: Planner,
    graphs: Graphs,
    states: States,
    buffers: Buffers,
    read_back: ReadBack,
    steps: Steps,
    kept: decode::Kept,
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
        let states = States::new(&device, model.shape(), plan.state, slots)?;
        let mut buffers = Buffers::default();
        buffers.make(&device, &BTreeMap::from([(BufferId::GridBarrier, BARRIER_BYTES)]));
        drop(span);
        let weights = Arc::new(Mutex::new(Weights::new(Arc::clone(&device))));
        let pipelines = Pipelines::new(Arc::clone(&device));
        let (compiler, pipelines) = (pipelines.compiler(), Arc::new(Mutex::new(pipelines)));
        Ok(GpuExecutor {
            planner: Planner::new(plan, Arc::clone(&model), catalogue, device.limits().clone()),
            shared: Shared { device, model, weights, compiler, pipelines },
            graphs,
            states,
            buffers,
            read_back: ReadBack::default(),
            steps: Steps {
                chains: HashMap::new(),
                opened: 0,
                pads: false,
                persistent: PersistentCache::default(),
                expected: Expected::default(),
                most: STEPS_KEPT,
                weights_dropped: 0,
                submissions: None,
            },
            kept: decode::Kept::default(),
        })
    }

    /// Another executor with a plan and state of its own, sharing this one's weights and compiled kernels.
    ///
    /// # Errors
    /// As [`GpuExecutor::new`].
    pub fn sharing_weights(&self, plan: Plan, slots: usize) -> Result<Self, RuntimeError> {
        self.sharing_with(Arc::clone(&self.shared.model), plan, slots)
    }

    /// As [`GpuExecutor::sharing_weights`], for a model that has some weights in other formats and is otherwise this
    /// one's: weights of one format must have the same numbers in both. What only one of them has is uploaded beside
    /// the rest.
    ///
    /// # Errors
    /// As [`GpuExecutor::new`].
    pub fn sharing_with(&self, model: Arc<Model>, plan: Plan, slots: usize) -> Result<Self, RuntimeError> {
        let device = Arc::clone(&self.shared.device);
        let mut other = GpuExecutor::new(device, model, plan, self.planner.catalogue.clone(), slots)?;
        other.shared.weights = Arc::clone(&self.shared.weights);
        other.shared.compiler = self.shared.compiler.clone();
        other.shared.pipelines = Arc::clone(&self.shared.pipelines);
        other.steps.persistent.in_background = self.steps.persistent.in_background;
        Ok(other)
    }

    /// Drops the weights that are on the device, of all executors that share them: they are uploaded again on next use.
    pub fn drop_weights(&self) {
        self.shared.weights.lock().forget();
    }

    /// From now on divides the groups of a pass whose kernels and weights are there into so many submissions. Of its
    /// own it makes two for a device that is idle, the first a short one, else one. The results are the same.
    pub fn submit_in(&mut self, submissions: NonZeroUsize) {
        self.steps.submissions = Some(submissions);
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.shared.device
    }

    /// The plan being run.
    pub fn plan(&self) -> &Plan {
        &self.planner.plan
    }

    /// The class of precision of its plan.
    pub fn class(&self) -> PrecisionClass {
        self.planner.plan.class(&self.planner.catalogue)
    }

    /// What a pass over a batch of that shape does.
    ///
    /// # Errors
    /// No kernel serves an op here, or a value is larger than the device binds.
    pub fn record(&self, batch: &BatchShape) -> Result<Recording, RuntimeError> {
        self.planner.record(self.graphs.of(batch), &PassShape::from(*batch))
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
        let dropped = self.shared.weights.lock().dropped;
        if std::mem::replace(&mut self.steps.weights_dropped, dropped) != dropped {
            self.forget_steps();
        }
        self.steps.opened += 1;
        let opened = self.steps.opened;
        if let Some(step) = self.steps.chains.remove(pass) {
            return Ok(step.opened_at(opened));
        }
        self.graphs.make(self.shared.model.shape(), pass.target, &self.planner.plan.fusions)?;
        let span = self.shared.device.timeline().span(Track::Schedule, "record");
        let record = || self.planner.record(self.graphs.of_pass(pass), pass);
        let expected = self.steps.expected.pass(&pass.batch).filter(|_| pass.target == Target::Logits);
        let recording = expected.map_or_else(record, |expected| expected.recording(record))?;
        self.shared.pipelines.lock().begin(&recording.kernels.iter().collect::<Vec<_>>());
        drop(span);
        let mut sizes = schedule::buffers(&recording, &pass.batch, self.shared.device.limits());
        sizes.remove(&BufferId::Params);
        if self.buffers.drop_outgrown(&sizes) {
            // What is bound to the old buffers goes with them, before there are new ones.
            self.forget_steps();
        }
        while self.steps.chains.len() >= self.steps.most.max(1) {
            let oldest = self.steps.chains.iter().min_by_key(|(_, step)| step.opened).map(|(pass, _)| *pass);
            oldest.iter().for_each(|pass| drop(self.steps.chains.remove(pass)));
        }
        self.buffers.make(&self.shared.device, &sizes);
        self.shared.device.check("allocating activations")?;
        Ok(Step::new(self, &pass.batch, recording)?.opened_at(opened))
    }

    /// A batch of logits as it is run: padded, if passes are.
    fn padded(&self, mut batch: Batch) -> Batch {
        // A result that stays has one row.
        if self.steps.pads && self.can_decode() && batch.target == Target::Logits && !batch.stays {
            batch.pad(self.states.slots);
        }
        batch
    }

    /// Puts a step back; after a failure nothing that was half done is kept.
    fn keep_step(&mut self, pass: PassShape, step: Result<Step, RuntimeError>) -> Result<(), RuntimeError> {
        match step {
            Ok(step) => {
                self.steps.chains.insert(pass, step);
                Ok(())
            }
            Err(e) => {
                self.forget_steps();
                self.shared.weights.lock().forget();
                Err(e)
            }
        }
    }

    pub(super) fn forget_steps(&mut self) {
        self.steps.chains.clear();
        self.steps.persistent.forget();
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
                self.shared.device.queue.write_buffer(&self.buffers[BufferId::Table(table)], 0, data);
            }
        }
    }
}

impl Executor for GpuExecutor {
    fn shape(&self) -> &ModelShape {
        self.shared.model.shape()
    }

    fn slots(&self) -> usize {
        self.states.slots
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
        State::all(self.shared.model.shape()).map(|state| self.states.place(state).slot_bytes).sum()
    }

    fn set_state(&mut self, slot: usize, state: &StateData) -> Result<(), RuntimeError> {
        state.check(self.shared.model.shape())?;
        for (tensor, data) in &state.0 {
            let place = self.states.place(*tensor);
            self.shared.device.queue.write_buffer(place.buffer, place.at(slot), &place.encode(data));
        }
        self.shared.device.check("writing state")
    }

    fn reset(&mut self, slots: Range<usize>) -> Result<(), RuntimeError> {
        let mut encoder = self.shared.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for state in State::all(self.shared.model.shape()) {
            let place = self.states.place(state);
            encoder.clear_buffer(place.buffer, place.at(slots.start), Some(slots.len() as u64 * place.slot_bytes));
        }
        self.shared.device.queue.submit([encoder.finish()]);
        self.shared.device.check("clearing states")
    }

    fn grow(&mut self, slots: usize) -> Result<usize, RuntimeError> {
        self.add_slots(slots)
    }

    fn fork(&self) -> Result<Box<dyn Executor>, RuntimeError> {
        let mut other = self.sharing_weights(self.planner.plan.clone(), 1)?;
        other.steps.most = self.steps.most;
        Ok(Box::new(other))
    }

    fn in_f32(&self, slots: usize) -> Result<Box<dyn Executor>, RuntimeError> {
        let (own, device) = (&self.planner.plan, &self.shared.device);
        let default = Plan::default_for(device.fingerprint().clone(), *self.shape(), device.limits());
        let plan = Plan { prefill_chunk: own.prefill_chunk, ..default };
        Ok(Box::new(self.sharing_weights(plan.at_most(Precision::F32, &self.planner.catalogue), slots)?))
    }

    fn pad_passes(&mut self, expected: &[BatchShape]) -> Result<(), RuntimeError> {
        self.steps.pads = true;
        self.expect_passes(expected)
    }

    fn decoder(&mut self) -> Option<&mut dyn Decoder> {
        self.can_decode().then_some(self as &mut dyn Decoder)
    }

    fn max_outputs(&self) -> usize {
        if let Some(room) = self.shared.weights.lock().capacity() {
            return room.outputs as usize;
        }
        let limits = self.shared.device.limits();
        let row = u64::from(self.shared.model.shape().vocab) * 4;
        (limits.storage_binding.min(limits.buffer) / row) as usize
    }

    fn report(&self) -> LoadReport {
        let taken = self.shared.weights.lock().taken;
        let device = self.shared.device.memory();
        LoadReport {
            uploaded: taken.bytes,
            upload_seconds: taken.seconds,
            pipelines: self.shared.pipelines.lock().counts(),
            footprint: self.footprint(),
            peak_staging: taken.staging,
            device,
            peak_device: taken.device.or(device),
            persistent: self.steps.persistent.status(),
        }
    }
}
