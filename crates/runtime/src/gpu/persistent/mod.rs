//! The persistent form of a step: runs of layers as one dispatch each, where the device was seen to keep up with it.

mod run;
mod runs;
mod trial;

use super::step::{BoundDispatch, BoundRange, Step};
use super::{GpuExecutor, lock};
use crate::batch::PassShape;
use crate::{PersistentForm, RuntimeError};
use runs::{Located, Run, layout, meetings, runs};
use std::collections::{BTreeSet, HashMap};
use wgoose_graph::BatchShape;
use wgoose_kernels::persistent::{Form, StagePart, TABLE, merge, table_head};

/// Bytes of the meeting.
pub(super) const MEETING: u64 = 16;

/// First byte of the word that says that workgroups waited in vain (twin: `kernels-wgsl/persistent/meeting.wgsl`).
pub(super) const GAVE_UP: usize = 8;

/// What an executor knows of persistent steps.
#[derive(Default)]
pub(super) struct Persistence {
    /// For shapes that were tried: the step, or why there is none.
    steps: HashMap<BatchShape, Result<PersistentStep, String>>,
}

/// A step as few dispatches.
pub(super) struct PersistentStep {
    dispatches: Vec<BoundDispatch>,
    /// Kept alive for the bindings.
    _bases: Vec<wgpu::Buffer>,
    /// Layers of which several dispatches are merged.
    layers: usize,
}

impl PersistentStep {
    /// Appends the step to a pass.
    pub(super) fn dispatch(&self, pass: &mut wgpu::ComputePass<'_>) {
        self.dispatches.iter().for_each(|dispatch| dispatch.encode(pass));
    }
}

impl Persistence {
    /// Forgets everything that is bound.
    pub(super) fn forget(&mut self) {
        self.steps.clear();
    }

    /// The step for a shape.
    pub(super) fn step(&self, shape: &BatchShape) -> Option<&PersistentStep> {
        self.steps.get(shape).and_then(|step| step.as_ref().ok())
    }

    /// How the step of a single token runs; `None` if that was not tried yet.
    pub(super) fn form(&self) -> Option<PersistentForm> {
        let tried = self.steps.values().next()?;
        Some(match tried {
            Ok(step) => PersistentForm::Runs { dispatches: step.dispatches.len(), layers: step.layers },
            Err(why) => PersistentForm::Refused(why.clone()),
        })
    }
}

impl GpuExecutor {
    /// Makes the persistent form of a step that is ready, if the plan asks for it and it was not tried yet: builds it, and
    /// compares it with the chain of dispatches.
    ///
    /// # Errors
    /// The device fails. That the form does not work here is no error: the chain is used.
    pub(super) fn settle(&mut self, shape: &BatchShape) -> Result<(), RuntimeError> {
        let Some(workgroups) = self.plan.persistent else { return Ok(()) };
        let one = BatchShape { tokens: 1, segments: 1, outputs: 1 };
        let ready = self.steps.get(&PassShape::from(*shape)).is_some_and(|step| step.ready);
        if *shape != one || !ready || self.persistent.steps.contains_key(shape) {
            return Ok(());
        }
        let built = self.build(shape, workgroups)?;
        let tried = match built {
            Ok(step) => self.trial(shape, &step)?.map(|()| step),
            Err(why) => Err(why),
        };
        self.persistent.steps.insert(*shape, tried);
        Ok(())
    }

    /// Gives the persistent form up: workgroups waited in vain.
    pub(super) fn unsettle(&mut self, shape: &BatchShape) {
        self.persistent.steps.insert(*shape, Err("its workgroups did not all run at once".to_owned()));
    }

    /// Clears the counters after workgroups waited in vain.
    pub(super) fn reset_meeting(&self) {
        self.device.queue.write_buffer(&self.meeting, 0, &[0; MEETING as usize]);
    }

    fn build(&mut self, shape: &BatchShape, workgroups: u32) -> Result<Result<PersistentStep, String>, RuntimeError> {
        let device = std::sync::Arc::clone(&self.device);
        let Some(step) = self.steps.get(&PassShape::from(*shape)) else {
            return Ok(Err("the step is not there".to_owned()));
        };
        let all = self.located(step)?;
        let mut persistent = PersistentStep { dispatches: Vec::new(), _bases: Vec::new(), layers: 0 };
        let mut layers = BTreeSet::new();
        let bound: Vec<&BoundDispatch> = step.bound.iter().flatten().flatten().collect();
        let width = |located: &Located<'_>| located.kernel.reflection.workgroup_size.iter().product::<u32>();
        let threads = all.iter().filter(|d| d.layer.is_some()).map(width).max().unwrap_or(1);
        for run in runs(&all, threads, device.limits().storage_binding) {
            match self.merged(&all, &run, (workgroups, threads))? {
                Ok((dispatch, bases)) => {
                    persistent.dispatches.push(dispatch);
                    persistent._bases.push(bases);
                    if run[0].len() > 1 {
                        layers.extend(run.iter().filter_map(|layer| all[layer.start].layer));
                    }
                }
                // What stands alone, as the head does, may stay a dispatch.
                Err(_) if run.len() == 1 => {
                    persistent.dispatches.extend(bound[run[0].clone()].iter().map(|d| (*d).clone()));
                }
                Err(why) => return Ok(Err(why)),
            }
        }
        persistent.layers = layers.len();
        if layers.is_empty() {
            return Ok(Err("no two dispatches of the plan's kernels can be stages of one".to_owned()));
        }
        Ok(Ok(persistent))
    }

    /// Every dispatch of a step with what it binds.
    fn located<'a>(&self, step: &'a Step) -> Result<Vec<Located<'a>>, RuntimeError> {
        let mut weights = lock(&self.weights);
        let mut all = Vec::new();
        for (number, group) in step.groups.iter().enumerate() {
            for i in group.dispatches.clone() {
                let dispatch = &step.recording.dispatches[i];
                let slot = |_, slot: usize, offset| (self.arena[slot].clone(), offset);
                let kernel = &step.recording.kernels[dispatch.kernel];
                all.push(Located {
                    kernel,
                    params: dispatch.params,
                    units: kernel.units,
                    layer: self.graphs.decode.op(dispatch.node).layer,
                    ranges: step.locate((number, i), self, &mut weights, &slot)?,
                });
            }
        }
        Ok(all)
    }

    /// A run of layers as one dispatch, and its table of bases.
    fn merged(
        &self,
        all: &[Located<'_>],
        run: &Run,
        (workgroups, threads): (u32, u32),
    ) -> Result<Result<(BoundDispatch, wgpu::Buffer), String>, RuntimeError> {
        let device = &self.device;
        let Some(mut layout) = layout(all, run) else {
            return Ok(Err("an operand is no array of numbers".to_owned()));
        };
        let layer = &all[run[0].clone()];
        let places = std::mem::take(&mut layout.places);
        let parts: Vec<StagePart<'_>> = layer
            .iter()
            .zip(places)
            .zip(meetings(layer))
            .map(|((located, places), meets)| StagePart {
                kernel: located.kernel,
                units: located.units,
                params: located.params,
                places,
                meets,
            })
            .collect();
        let form = Form { columns: layout.columns, workgroups, threads };
        let kernel = match merge(&parts, &layout.pools, form, device.limits(), &self.sources) {
            Ok(kernel) => kernel,
            Err(why) => return Ok(Err(why.to_string())),
        };
        let table = [&table_head(run.len() as u32)[..], &layout.bases].concat();
        if size_of_val(&table[..]) > TABLE {
            return Ok(Err("its layers have too many operands".to_owned()));
        }
        let bases = device.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("bases"),
            size: TABLE as u64,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        device.queue.write_buffer(&bases, 0, bytemuck::cast_slice(&table));
        let mut pipelines = lock(&self.pipelines);
        if let Err(why) = pipelines.compile(&[&kernel]) {
            return match &why {
                RuntimeError::Device { during: "compiling a kernel", .. } => Ok(Err(why.to_string())),
                _ => Err(why),
            };
        }
        let Some(pipeline) = pipelines.get(&kernel.hash) else { return Ok(Err("it was not compiled".to_owned())) };
        let whole = |binding, buffer: &wgpu::Buffer| BoundRange {
            binding,
            buffer: buffer.clone(),
            offset: 0,
            size: buffer.size(),
        };
        layout.ranges.extend([whole(0, &self.meeting), whole(1, &bases)]);
        // The driver drops what a kernel does not use; wgpu wants it bound all the same.
        Ok(Ok((BoundDispatch::new(device, pipeline, &layout.ranges, [workgroups, 1, 1]), bases)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Continuation, DecodeReport, Device, Executor, Penalties, Sampling, Start, StateData};
    use std::ops::ControlFlow;
    use std::sync::Arc;
    use wgoose_graph::{LoraRanks, ModelShape};
    use wgoose_kernels::{Plan, Sources};
    use wgoose_loader::synth::{Mix, SynthOptions, write};
    use wgoose_loader::{Container, Model};

    fn executor() -> GpuExecutor {
        let ranks = LoraRanks { decay: 32, iclr: 32, value: 32, gate: 32 };
        let shape = ModelShape { layers: 3, width: 128, ffn: 256, head_size: 64, vocab: 128, ranks };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        let (container, mix) = (Container::Gguf, Mix::F16);
        let options = SynthOptions { shape, seed: 1, container, mix, hot: false, vocabulary: None, ffn_zeros: None };
        write(&options, &path, &|_, _| {}).unwrap();
        let model = Arc::new(Model::open(path).unwrap());
        let device = Device::open(None).unwrap();
        let plan = Plan::default_for(device.fingerprint().clone(), shape, device.limits());
        GpuExecutor::new(device, model, Plan { persistent: Some(1), ..plan }, Sources::Embedded, 1).unwrap()
    }

    /// Forty tokens from the empty state, and the state after them. From `fail_at` tokens on it is as if workgroups had
    /// waited in vain: nothing runs until that is cleared, and no token is drawn.
    fn decode(executor: &mut GpuExecutor, fail_at: Option<usize>) -> (Vec<u32>, StateData, DecodeReport) {
        let zero = StateData::zero(executor.shape());
        executor.set_state(0, &zero).unwrap();
        let penalties = Penalties { presence: 0.5, frequency: 0.1, decay: 0.9 };
        let sampling = Sampling {
            temperature: 0.9,
            top_p: 0.9,
            top_k: None,
            typical: 1.0,
            penalties,
            seed: 3,
            stream: 0,
            drawn: 0,
        };
        let sequence = Continuation { slot: 0, sampling, bias: &[], chosen: &[], stops: &[], max_tokens: 40 };
        let start = Start::Tokens(&[5]);
        let batch = executor.check_decode(start, &[sequence]).unwrap();
        let (device, meeting) = (Arc::clone(&executor.device), executor.meeting.clone());
        let mut text = Vec::new();
        let report = executor.decode(batch, start, &[sequence], 3, &mut |ids| {
            text.extend(ids.iter().flatten());
            if fail_at == Some(text.len()) {
                device.queue.write_buffer(&meeting, GAVE_UP as u64, &[1, 0, 0, 0]);
            }
            ControlFlow::Continue(())
        });
        (text, executor.state(0).unwrap(), report.unwrap())
    }

    #[test]
    fn a_step_that_gave_up_is_run_again_as_a_chain() {
        let mut executor = executor();
        let (text, state, report) = decode(&mut executor, None);
        assert!(report.persistent > 0 && !report.gave_up, "{:?}", executor.persistent.form());
        let (again, state_again, report) = decode(&mut executor, Some(10));
        assert_eq!((again, state_again), (text, state));
        assert!(report.gave_up && report.repeated > 0 && report.persistent >= 10, "{report:?}");
        assert!(matches!(executor.persistent.form(), Some(PersistentForm::Refused(_))));
    }
}
