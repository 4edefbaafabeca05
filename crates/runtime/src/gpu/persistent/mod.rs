//! Persistent kernels: ranges of layers as one dispatch each, where the device was seen to run them right.

mod building;
mod run;
mod self_test;

use super::GpuExecutor;
use super::step::Step;
use crate::batch::PassShape;
use crate::schedule::{BufferId, FuseError, Fused};
use crate::{NotPersistent, PersistentStatus, RuntimeError};
use building::{Building, Made};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use wgoose_graph::BatchShape;
pub(super) use wgoose_kernels::persistent::BARRIER_BYTES;
use wgoose_kernels::persistent::TIMED_OUT_WORD;

/// First byte of the word of the grid barrier that says that workgroups timed out.
pub(super) const TIMED_OUT_BYTE: usize = 4 * TIMED_OUT_WORD;

/// The shape of steps that have a persistent form: what a plan asks for was measured on one sequence.
pub(super) const ONE: BatchShape = BatchShape { tokens: 1, segments: 1, outputs: 1 };

/// The persistent kernels of an executor.
#[derive(Default)]
pub(super) struct PersistentCache {
    /// Whether passes go on as chains of dispatches while kernels are compiled.
    pub(super) in_background: bool,
    forms: Mutex<HashMap<BatchShape, Form>>,
    /// What was in the making when everything was forgotten.
    outdated: Mutex<Vec<Building>>,
}

/// How far a shape is.
enum Form {
    Building(Building),
    Built(Arc<PersistentStep>),
    Refused(NotPersistent),
}

/// A step whose layers are persistent kernels.
pub(super) struct PersistentStep {
    step: Step,
    /// Layers of which several dispatches are fused.
    layers: usize,
}

impl PersistentStep {
    /// Appends the step to a pass.
    pub(super) fn dispatch(&self, pass: &mut wgpu::ComputePass<'_>) {
        self.step.dispatch(0..self.step.groups.len(), pass);
    }
}

impl PersistentCache {
    /// Forgets everything that is bound, without waiting for what is in the making.
    pub(super) fn forget(&mut self) {
        let forms = std::mem::take(&mut *self.forms.lock()).into_values();
        let building = forms.filter_map(|form| if let Form::Building(building) = form { Some(building) } else { None });
        self.outdated.lock().extend(building);
    }

    /// The step for a shape.
    pub(super) fn step(&self, shape: &BatchShape) -> Option<Arc<PersistentStep>> {
        match self.forms.lock().get(shape) {
            Some(Form::Built(step)) => Some(Arc::clone(step)),
            _ => None,
        }
    }

    /// Bytes on the device, but for what the steps share with others.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = |form: &Form| if let Form::Built(built) = form { built.step.bytes() } else { 0 };
        self.forms.lock().values().map(bytes).sum()
    }

    /// Whether the step of a single token uses persistent kernels; `None` if that was not tried yet.
    pub(super) fn status(&self) -> Option<PersistentStatus> {
        match self.forms.lock().values().next()? {
            Form::Building(_) => None,
            Form::Built(built) => {
                let (dispatches, layers) = (built.step.recording.dispatches.len(), built.layers);
                Some(PersistentStatus::Used { dispatches, layers })
            }
            Form::Refused(why) => Some(PersistentStatus::Refused(why.clone())),
        }
    }
}

impl GpuExecutor {
    /// Begins to build the persistent kernels of a step of one token, if the plan asks for them and they were not tried
    /// yet.
    pub(super) fn begin_persistent(&self) {
        if let Some(workgroups) = self.planner.plan.persistent {
            let mut forms = self.steps.persistent.forms.lock();
            forms.entry(ONE).or_insert_with(|| Form::Building(self.start_building(&ONE, workgroups)));
        }
    }

    /// Compiles what decoding one sequence takes, its persistent kernels included, so that it is found on disk once it
    /// is run. What does not compile, or cannot be fused, says so then.
    ///
    /// # Errors
    /// No kernel serves an op here.
    pub fn compile_decoding(&self) -> Result<(), RuntimeError> {
        let recording = self.record(&ONE)?;
        let compiler = &self.shared.compiler;
        recording.kernels.iter().for_each(|kernel| drop(compiler.compile(kernel)));
        if let Some(workgroups) = self.planner.plan.persistent {
            drop(self.start_building(&ONE, workgroups).join());
        }
        Ok(())
    }

    fn start_building(&self, shape: &BatchShape, workgroups: u32) -> Building {
        let outdated = std::mem::take(&mut *self.steps.persistent.outdated.lock());
        Building::start(self, shape, workgroups, outdated)
    }

    /// Builds the persistent kernels of a step that is ready, if the plan asks for them and they were not tried yet,
    /// and compares them with one dispatch per op; where they are compiled in the background, as soon as they are
    /// there. Says whether it ran them: then the tables have other contents.
    ///
    /// # Errors
    /// The device fails, or a kernel's file is wrong. That they do not work here is no error: there is one dispatch per
    /// op.
    pub(super) fn ensure_persistent(&self, shape: &BatchShape) -> Result<bool, RuntimeError> {
        let Some(workgroups) = self.planner.plan.persistent else { return Ok(false) };
        if *shape != ONE {
            return Ok(false);
        }
        let chain = self.steps.chains.get(&PassShape::from(*shape)).filter(|step| step.ready);
        let Some(step) = chain else { return Ok(false) };
        let cache = &self.steps.persistent;
        let mut forms = cache.forms.lock();
        let building = match forms.remove(shape) {
            None => self.start_building(shape, workgroups),
            Some(Form::Building(building)) => building,
            Some(tried) => {
                forms.insert(*shape, tried);
                return Ok(false);
            }
        };
        if cache.in_background && !building.is_worth_waiting_for() {
            forms.insert(*shape, Form::Building(building));
            return Ok(false);
        }
        let built = match building.join() {
            // States or weights have moved meanwhile.
            Ok(made) if made.chain != step.memory => self.start_building(shape, workgroups).join(),
            made => made,
        };
        let built = built.and_then(|made| self.bind(step, shape, made));
        let form = match built.and_then(|built| self.self_test(step, &built).map(|()| built)) {
            Ok(built) => Form::Built(Arc::new(built)),
            Err(Failure::Refused(why)) => Form::Refused(why),
            Err(Failure::Broken(why)) => return Err(why),
        };
        forms.insert(*shape, form);
        Ok(true)
    }

    /// Uses one dispatch per op from now on: workgroups timed out.
    pub(super) fn disable_persistent(&self, shape: &BatchShape) {
        self.steps.persistent.forms.lock().insert(*shape, Form::Refused(NotPersistent::TimedOut));
    }

    /// Clears the counters after workgroups timed out.
    pub(super) fn reset_grid_barrier(&self) {
        self.shared.device.queue.write_buffer(&self.buffers[BufferId::GridBarrier], 0, &[0; BARRIER_BYTES as usize]);
    }

    fn bind(&self, step: &Step, shape: &BatchShape, made: Made) -> Result<PersistentStep, Failure> {
        let Fused { recording, layers } = made.fused;
        let mut step = step.fused(self, shape, recording);
        let mut pipelines = self.shared.pipelines.lock();
        made.pipelines.into_iter().for_each(|compiled| pipelines.keep(compiled));
        step.bind(0, self, &mut self.shared.weights.lock(), &pipelines)?;
        Ok(PersistentStep { step, layers })
    }
}

/// Why there is no persistent step.
enum Failure {
    /// One dispatch per op serves.
    Refused(NotPersistent),
    /// Nothing does.
    Broken(RuntimeError),
}

impl From<NotPersistent> for Failure {
    fn from(why: NotPersistent) -> Self {
        Failure::Refused(why)
    }
}

impl From<FuseError> for Failure {
    fn from(error: FuseError) -> Self {
        match error {
            FuseError::Unfused(why) => Failure::Refused(why.into()),
            FuseError::Text(wrong) => Failure::Broken(wrong.into()),
        }
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Self {
        Failure::Broken(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Timeline;
    use crate::{
        Ahead, Batch, Continuation, DecodeReport, Decoder, Device, DeviceOptions, Executor, Outputs, Penalties,
        Sampling, Sequence, Start, StateData,
    };
    use std::ops::ControlFlow;
    use std::path::Path;
    use std::sync::Arc;
    use wgoose_graph::{LoraRanks, ModelShape};
    use wgoose_kernels::persistent::NEEDS;
    use wgoose_kernels::{HandOver, Plan};
    use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write};
    use wgoose_loader::{Container, Model};
    use wgoose_plans::catalogue;

    /// Whether there is nothing to test, which it then says: the device lacks a feature that every persistent kernel
    /// needs.
    fn skips() -> bool {
        let device = Device::open(None).unwrap();
        let lacking = NEEDS.into_iter().find(|feature| !device.limits().features.contains(feature));
        if let Some(feature) = lacking {
            eprintln!("skipped: the device has no {feature}, so that no kernel persists");
        }
        lacking.is_some()
    }

    fn executor() -> GpuExecutor {
        executor_with(&DeviceOptions::default(), HandOver::Barrier)
    }

    fn executor_with(opened: &DeviceOptions, hand_over: HandOver) -> GpuExecutor {
        let ranks = LoraRanks { decay: 32, iclr: 32, value: 32, gate: 32 };
        let shape = ModelShape {
            layers: 3,
            width: 128,
            ffn: 256,
            head_size: 64,
            vocab: 128,
            ranks,
            deep_embed: None,
            embedding_norm: true,
            output_head: true,
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        let (container, mix) = (Container::Gguf, Mix::F16);
        let options = SynthOptions { shape, seed: 1, container, mix, hot: false, vocabulary: None, ffn_zeros: None };
        write(&options, &path, &mut unwatched).unwrap();
        let model = Arc::new(Model::open(path).unwrap());
        let device = Device::open_with(opened).unwrap();
        let plan = Plan::default_for(device.fingerprint().clone(), shape, device.limits());
        let plan = Plan { persistent: Some(1), hand_over, ..plan };
        GpuExecutor::new(device, model, plan, catalogue::embedded(), 1).unwrap()
    }

    /// Forty tokens from the empty state, and the state after them. From `fail_at` tokens on it is as if workgroups had
    /// timed out: nothing runs until that is cleared, and no token is drawn.
    fn decode(executor: &mut GpuExecutor, fail_at: Option<usize>) -> (Vec<u32>, StateData, DecodeReport) {
        let zero = StateData::zero(executor.shape());
        executor.set_state(0, &zero).unwrap();
        let penalties = Penalties { presence: 0.5, frequency: 0.1, decay: 0.9, ..Penalties::default() };
        let sampling = Sampling { temperature: 0.9, top_p: 0.9, penalties, seed: 3, ..Sampling::default() };
        let sequence = Continuation::new(0, sampling, 40);
        let start = Start::Tokens(&[5]);
        let batch = executor.check_decode(start, &[sequence], &[]).unwrap();
        let (device, barrier) = (Arc::clone(&executor.shared.device), executor.buffers[BufferId::GridBarrier].clone());
        let mut text = Vec::new();
        let report = executor.decode(batch, start, &[sequence], Ahead::Breakable(3), &mut |chosen| {
            text.extend(chosen.iter().flatten().map(|chosen| chosen.token));
            if fail_at == Some(text.len()) {
                device.queue.write_buffer(&barrier, TIMED_OUT_BYTE as u64, &[1, 0, 0, 0]);
            }
            ControlFlow::Continue(())
        });
        (text, executor.state(0).unwrap(), report.unwrap())
    }

    #[test]
    fn a_timed_out_megakernel_is_run_again_op_by_op() {
        if skips() {
            return;
        }
        for hand_over in [HandOver::Barrier, HandOver::Announced] {
            let mut executor = executor_with(&DeviceOptions::default(), hand_over);
            let (text, state, report) = decode(&mut executor, None);
            assert!(report.persistent > 0 && !report.timed_out, "{:?}", executor.steps.persistent.status());
            let (again, state_again, report) = decode(&mut executor, Some(10));
            assert_eq!((again, state_again), (text, state));
            assert!(report.timed_out && report.repeated > 0 && report.persistent >= 10, "{report:?}");
            assert!(matches!(executor.steps.persistent.status(), Some(PersistentStatus::Refused(_))));
        }
    }

    #[test]
    fn a_megakernel_that_passed_its_self_test_is_not_tested_again() {
        if skips() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let tried = |cache: Option<&Path>| {
            let (cache, timeline) = (cache.map(Path::to_owned), Timeline::on());
            let options = DeviceOptions { cache, timeline: timeline.clone(), ..DeviceOptions::default() };
            let mut executor = executor_with(&options, HandOver::Barrier);
            let (text, _, report) = decode(&mut executor, None);
            assert!(report.persistent > 0);
            (text, timeline.spans().iter().filter(|span| span.name == self_test::DURING).count())
        };
        let (text, times) = tried(Some(folder.path()));
        assert_eq!(times, 1);
        if Device::open(None).unwrap().device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            assert_eq!(tried(Some(folder.path())), (text.clone(), 0));
        }
        assert_eq!(tried(None), (text, 1));
    }

    #[test]
    fn kernels_compiled_in_the_background_take_over_between_steps() {
        if skips() {
            return;
        }
        let (want, state, report) = decode(&mut executor(), None);
        assert!(report.persistent > 0);
        let mut background = executor();
        background.compile_in_background();
        let mut counts = Vec::new();
        while counts.last() != Some(&report.persistent) {
            let (text, state_now, now) = decode(&mut background, None);
            assert_eq!((&text, &state_now), (&want, &state), "{counts:?}");
            counts.push(now.persistent);
            assert!(counts.len() < 1000, "{:?}", background.steps.persistent.status());
        }
        assert!(counts[0] < report.persistent, "the first call waited");
    }
    /// Kernels that nobody asks for would cost a start that only reads logits its time and memory.
    #[test]
    fn a_prefill_prepares_decode_only_if_its_logits_stay() {
        let mut executor = executor();
        executor.compile_in_background();
        let prompt = Sequence { slot: 0, tokens: &[1, 2, 3], outputs: Outputs::Last };
        let read = Batch::pack(&[prompt], executor.shape().vocab, 1).unwrap();
        for stays in [false, true] {
            executor.run(&Batch { stays, ..read.clone() }).unwrap();
            assert_eq!(executor.steps.expected.pass(&ONE).is_some(), stays);
        }
    }
}
