//! Persistent kernels: ranges of layers as one dispatch each, where the device was seen to run them right.

mod layer_ranges;
mod run;
mod self_test;

use super::step::{BoundDispatch, BoundRange, Step};
use super::{GpuExecutor, lock};
use crate::batch::PassShape;
use crate::{PersistentStatus, RuntimeError};
use layer_ranges::{LayerRange, Located, grid_syncs, layer_ranges, layout};
use std::collections::{BTreeSet, HashMap};
use wgoose_graph::BatchShape;
pub(super) use wgoose_kernels::persistent::BARRIER_BYTES;
use wgoose_kernels::persistent::{Launch, OFFSET_TABLE_BYTES, StagePart, TIMED_OUT_WORD, fuse, table_head};
use wgoose_kernels::{KernelError, PlanError};

/// Why a self-test or a run was given up.
const TIMED_OUT: &str = "its workgroups did not all run at once";

/// First byte of the word of the grid barrier that says that workgroups timed out.
pub(super) const TIMED_OUT_BYTE: usize = 4 * TIMED_OUT_WORD;

/// The persistent kernels of an executor.
#[derive(Default)]
pub(super) struct PersistentCache {
    /// For shapes that were tried: the step, or why there is none.
    steps: HashMap<BatchShape, Result<PersistentStep, String>>,
}

/// A step whose layers are persistent kernels.
pub(super) struct PersistentStep {
    dispatches: Vec<BoundDispatch>,
    /// Kept alive for the bindings.
    _offsets: Vec<wgpu::Buffer>,
    /// Layers of which several dispatches are fused.
    layers: usize,
}

impl PersistentStep {
    /// Appends the step to a pass.
    pub(super) fn dispatch(&self, pass: &mut wgpu::ComputePass<'_>) {
        self.dispatches.iter().for_each(|dispatch| dispatch.encode(pass));
    }
}

impl PersistentCache {
    /// Forgets everything that is bound.
    pub(super) fn forget(&mut self) {
        self.steps.clear();
    }

    /// The step for a shape.
    pub(super) fn step(&self, shape: &BatchShape) -> Option<&PersistentStep> {
        self.steps.get(shape).and_then(|step| step.as_ref().ok())
    }

    /// Whether the step of a single token uses persistent kernels; `None` if that was not tried yet.
    pub(super) fn status(&self) -> Option<PersistentStatus> {
        let tried = self.steps.values().next()?;
        Some(match tried {
            Ok(step) => PersistentStatus::Used { dispatches: step.dispatches.len(), layers: step.layers },
            Err(why) => PersistentStatus::Refused(why.clone()),
        })
    }
}

impl GpuExecutor {
    /// Builds the persistent kernels of a step that is ready, if the plan asks for them and they were not tried yet, and
    /// compares them with one dispatch per op.
    ///
    /// # Errors
    /// The device fails, or a kernel's file is wrong. That they do not work here is no error: there is one dispatch per op.
    pub(super) fn ensure_persistent(&mut self, shape: &BatchShape) -> Result<(), RuntimeError> {
        let Some(workgroups) = self.plan.persistent else { return Ok(()) };
        let one = BatchShape { tokens: 1, segments: 1, outputs: 1 };
        let ready = self.steps.get(&PassShape::from(*shape)).is_some_and(|step| step.ready);
        if *shape != one || !ready || self.persistent.steps.contains_key(shape) {
            return Ok(());
        }
        let built = self.build(shape, workgroups)?;
        let tried = match built {
            Ok(step) => self.self_test(shape, &step)?.map(|()| step),
            Err(why) => Err(why),
        };
        self.persistent.steps.insert(*shape, tried);
        Ok(())
    }

    /// Uses one dispatch per op from now on: workgroups timed out.
    pub(super) fn disable_persistent(&mut self, shape: &BatchShape) {
        self.persistent.steps.insert(*shape, Err(TIMED_OUT.to_owned()));
    }

    /// Clears the counters after workgroups timed out.
    pub(super) fn reset_grid_barrier(&self) {
        self.device.queue.write_buffer(&self.grid_barrier, 0, &[0; BARRIER_BYTES as usize]);
    }

    fn build(&mut self, shape: &BatchShape, workgroups: u32) -> Result<Result<PersistentStep, String>, RuntimeError> {
        let device = std::sync::Arc::clone(&self.device);
        let Some(step) = self.steps.get(&PassShape::from(*shape)) else {
            return Ok(Err("the step is not there".to_owned()));
        };
        let all = self.located(step)?;
        let mut persistent = PersistentStep { dispatches: Vec::new(), _offsets: Vec::new(), layers: 0 };
        let mut layers = BTreeSet::new();
        let bound: Vec<&BoundDispatch> = step.bound.iter().flatten().flatten().collect();
        let width = |located: &Located<'_>| located.kernel.facts.threads();
        let threads = all.iter().filter(|d| d.layer.is_some()).map(width).max().unwrap_or(1);
        for range in layer_ranges(&all, threads, device.limits().storage_binding) {
            match self.fused(&all, &range, (workgroups, threads))? {
                Ok((dispatch, offsets)) => {
                    persistent.dispatches.push(dispatch);
                    persistent._offsets.push(offsets);
                    if range[0].len() > 1 {
                        layers.extend(range.iter().filter_map(|layer| all[layer.start].layer));
                    }
                }
                // A dispatch that stands alone, such as the head, may stay one.
                Err(_) if range.len() == 1 => {
                    persistent.dispatches.extend(bound[range[0].clone()].iter().map(|d| (*d).clone()));
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
                    workgroups: kernel.workgroups,
                    layer: self.graphs.decode.op(dispatch.node).layer,
                    ranges: step.locate((number, i), self, &mut weights, &slot)?,
                });
            }
        }
        Ok(all)
    }

    /// A range of layers as one dispatch, and its offset table.
    fn fused(
        &self,
        all: &[Located<'_>],
        range: &LayerRange,
        (workgroups, threads): (u32, u32),
    ) -> Result<Result<(BoundDispatch, wgpu::Buffer), String>, RuntimeError> {
        let device = &self.device;
        let Some(mut layout) = layout(all, range) else {
            return Ok(Err("an operand is no array of numbers".to_owned()));
        };
        let layer = &all[range[0].clone()];
        let slices = std::mem::take(&mut layout.slices);
        let stages = layer.iter().zip(slices).zip(grid_syncs(layer));
        let parts: Vec<StagePart<'_>> = stages
            .map(|((located, slices), needs_grid_sync)| StagePart {
                kernel: located.kernel,
                workgroups: located.workgroups,
                params: located.params,
                slices,
                needs_grid_sync,
            })
            .collect();
        let launch = Launch { columns: layout.columns, workgroups, threads };
        let kernel = match fuse(&parts, &layout.buffers, launch, device.limits(), &self.catalogue) {
            Ok(kernel) => kernel,
            Err(KernelError::Refused(why)) => return Ok(Err(why.to_string())),
            Err(KernelError::Text(wrong)) => return Err(PlanError::from(wrong).into()),
        };
        let table = [&table_head(range.len() as u32)[..], &layout.offsets].concat();
        if size_of_val(&table[..]) > OFFSET_TABLE_BYTES {
            return Ok(Err("its layers have too many operands".to_owned()));
        }
        let offsets = device.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("offset table"),
            size: OFFSET_TABLE_BYTES as u64,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        device.queue.write_buffer(&offsets, 0, bytemuck::cast_slice(&table));
        let mut pipelines = lock(&self.pipelines);
        if let Err(why) = pipelines.compile(&[&kernel]) {
            return match &why {
                RuntimeError::Compile { .. } => Ok(Err(why.to_string())),
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
        layout.bound.extend([whole(0, &self.grid_barrier), whole(1, &offsets)]);
        // The driver drops what a kernel does not use; wgpu wants it bound all the same.
        Ok(Ok((BoundDispatch::new(device, pipeline, &layout.bound, [workgroups, 1, 1]), offsets)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Continuation, DecodeReport, Device, Executor, Penalties, Sampling, Start, StateData};
    use std::ops::ControlFlow;
    use std::sync::Arc;
    use wgoose_graph::{LoraRanks, ModelShape};
    use wgoose_kernels::{Catalogue, Plan};
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
        GpuExecutor::new(device, model, Plan { persistent: Some(1), ..plan }, Catalogue::embedded(), 1).unwrap()
    }

    /// Forty tokens from the empty state, and the state after them. From `fail_at` tokens on it is as if workgroups had
    /// timed out: nothing runs until that is cleared, and no token is drawn.
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
        let (device, barrier) = (Arc::clone(&executor.device), executor.grid_barrier.clone());
        let mut text = Vec::new();
        let report = executor.decode(batch, start, &[sequence], 3, &mut |ids| {
            text.extend(ids.iter().flatten());
            if fail_at == Some(text.len()) {
                device.queue.write_buffer(&barrier, TIMED_OUT_BYTE as u64, &[1, 0, 0, 0]);
            }
            ControlFlow::Continue(())
        });
        (text, executor.state(0).unwrap(), report.unwrap())
    }

    #[test]
    fn a_step_that_timed_out_is_run_again_with_one_dispatch_per_op() {
        let mut executor = executor();
        let (text, state, report) = decode(&mut executor, None);
        assert!(report.persistent > 0 && !report.timed_out, "{:?}", executor.persistent.status());
        let (again, state_again, report) = decode(&mut executor, Some(10));
        assert_eq!((again, state_again), (text, state));
        assert!(report.timed_out && report.repeated > 0 && report.persistent >= 10, "{report:?}");
        assert!(matches!(executor.persistent.status(), Some(PersistentStatus::Refused(_))));
    }
}
