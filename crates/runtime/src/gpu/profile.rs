//! A step under the stopwatch: as a whole, dispatch by dispatch, and without its dependencies.

use super::GpuExecutor;
use super::step::{BoundDispatch, Step};
use super::stopwatch::Stopwatch;
use crate::batch::PassShape;
use crate::kernel_bench::Clock;
use crate::kernel_bench::roofline::Quantity;
use crate::profile::{DispatchProfile, Profile};
use crate::schedule::{BufferId, BufferRange, Dispatch};
use crate::{Batch, Executor, RuntimeError};
use std::time::Instant;
use wgoose_graph::OperandKind;
use wgoose_kernels::{Arithmetic, Instance, Kernel, Packed, ops};

/// Passes before the first that counts.
const WARM_UP: usize = 3;

/// Most bytes of buffers that take the place of activations.
const MOST_SCRATCH: u64 = 4 << 30;

impl GpuExecutor {
    /// Runs a batch over and over, as a chain of dispatches, and says where its time goes. The states of its slots are
    /// not to be used afterwards.
    ///
    /// # Errors
    /// The device cannot time dispatches or fails, weights are streamed, or what [`Executor::run`] fails with.
    pub fn profile(&mut self, batch: &Batch, runs: usize) -> Result<Profile, RuntimeError> {
        // Its dispatches are those of the chain.
        let persistent = self.planner.plan.persistent.take();
        let profile = self.profile_chain(batch, runs);
        self.planner.plan.persistent = persistent;
        profile
    }

    fn profile_chain(&mut self, batch: &Batch, runs: usize) -> Result<Profile, RuntimeError> {
        let pass = batch.pass();
        for _ in 0..WARM_UP {
            self.run(batch)?;
        }
        let mut wall = Vec::with_capacity(runs);
        for _ in 0..runs {
            let begun = Instant::now();
            self.run(batch)?;
            wall.push(begun.elapsed().as_nanos() as f64);
        }
        let step = self.open_step(&pass)?;
        let profile = self.profile_step(&step, pass, wall, runs);
        self.keep_step(pass, Ok(step))?;
        profile
    }

    fn profile_step(&self, step: &Step, pass: PassShape, wall: Vec<f64>, runs: usize) -> Result<Profile, RuntimeError> {
        if !step.ready {
            return Err(RuntimeError::Streamed);
        }
        let whole: Vec<&BoundDispatch> = step.bound.iter().flatten().flatten().collect();
        let stopwatch = Stopwatch::new(&self.shared.device, whole.len())?;
        let encode = |pass: &mut wgpu::ComputePass<'_>| whole.iter().for_each(|dispatch| dispatch.encode(pass));
        let clock = Clock::self_test(&self.shared.device, &|pass, n| (0..n).for_each(|_| encode(pass)))?;
        let gpu = repeat(runs, &mut || clock.time("a pass", &encode))?;
        let each = repeat(runs, &mut || stopwatch.time(whole.iter().copied()))?;
        let independent = match self.without_dependencies(step)? {
            Some(free) => repeat(runs, &mut || {
                clock
                    .time("a pass without dependencies", &|pass| free.iter().for_each(|dispatch| dispatch.encode(pass)))
            })?,
            None => Vec::new(),
        };
        let dispatches = step.recording.dispatches.iter().zip(middle(each));
        let kernel = |d: &Dispatch| &step.recording.kernels[d.kernel];
        let packed = |d: &Dispatch| step.recording.packed_of(self.graphs.of_pass(&pass), d.node);
        let dispatches = dispatches.map(|(d, ns)| self.describe(&pass, d, packed(d), kernel(d), ns)).collect();
        Ok(Profile { batch: pass.batch, clock: clock.source(), wall, gpu, independent, dispatches })
    }

    /// The dispatches of a step, each writing to activations of its own and reading those that earlier passes have
    /// left: no buffer of activations is both written and read, so that none waits for another. `None` if that takes
    /// too much memory.
    fn without_dependencies(&self, step: &Step) -> Result<Option<Vec<BoundDispatch>>, RuntimeError> {
        let (memory, scratch) = step.memory.independent(&step.recording);
        if scratch.iter().sum::<u64>() > MOST_SCRATCH {
            return Ok(None);
        }
        let scratch: Vec<wgpu::Buffer> =
            scratch.iter().map(|bytes| self.shared.device.storage("scratch", *bytes)).collect();
        let (mut weights, pipelines) = (self.shared.weights.lock(), self.shared.pipelines.lock());
        let mut free = Vec::with_capacity(step.recording.dispatches.len());
        for (dispatch, operands) in step.recording.dispatches.iter().zip(&memory.operands) {
            let Some(pipeline) = pipelines.get(&step.recording.kernels[dispatch.kernel].hash) else { continue };
            let buffer = &mut |range: &BufferRange| match range.buffer {
                BufferId::Scratch(number) => Ok(scratch[number].clone()),
                id => step.buffer(id, self, &mut weights),
            };
            free.push(BoundDispatch::new(&self.shared.device, pipeline, operands, dispatch.grid, buffer)?);
        }
        match self.shared.device.check("allocating activations") {
            Ok(()) => Ok(Some(free)),
            Err(RuntimeError::OutOfMemory { .. }) => Ok(None),
            Err(why) => Err(why),
        }
    }

    fn describe(
        &self,
        pass: &PassShape,
        dispatch: &Dispatch,
        packed: Packed,
        kernel: &Kernel,
        ns: f64,
    ) -> DispatchProfile {
        let graph = self.graphs.of_pass(pass);
        let node = graph.op(dispatch.node);
        let format = |weight| self.shared.model.tensor(weight).format();
        let instance = Instance { packed, ..Instance::of(graph, dispatch.node, &pass.batch, &format) };
        // A matrix in row shards: each dispatch has its share of the op.
        let rows = instance.inputs.iter().find(|i| i.kind == OperandKind::Matrix).map_or(instance.m, |i| i.rows);
        let share =
            |all: u64| (u128::from(all) * u128::from(dispatch.params.shard_rows) / u128::from(rows.max(1))) as u64;
        DispatchProfile {
            node: dispatch.node,
            op: node.op.name(),
            role: node.role,
            layer: node.layer,
            kernel: kernel.label.clone(),
            ns,
            bytes: share(instance.bytes()),
            flops: share((ops::kernels(&instance.op).flops)(&instance)),
            arithmetic: arithmetic(kernel),
        }
    }
}

/// What a kernel computes with.
fn arithmetic(kernel: &Kernel) -> Quantity {
    match kernel.facts.arithmetic {
        Arithmetic::Matrix => Quantity::MatrixF16,
        Arithmetic::Int8 => Quantity::DotInt8,
        Arithmetic::F32 => Quantity::FmaF32,
    }
}

fn repeat<T>(runs: usize, time: &mut dyn FnMut() -> Result<T, RuntimeError>) -> Result<Vec<T>, RuntimeError> {
    for _ in 0..WARM_UP {
        time()?;
    }
    (0..runs).map(|_| time()).collect()
}

/// The mean of each dispatch over the middle half of the runs by their sum: a mean, so that dispatches still add up to
/// passes.
fn middle(mut runs: Vec<Vec<f64>>) -> Vec<f64> {
    runs.sort_by(|a, b| a.iter().sum::<f64>().total_cmp(&b.iter().sum()));
    let outer = runs.len() / 4;
    let half = &runs[outer..runs.len() - outer];
    let Some(first) = half.first() else { return Vec::new() };
    (0..first.len()).map(|i| half.iter().map(|run| run[i]).sum::<f64>() / half.len() as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::middle;

    #[test]
    fn outer_runs_do_not_count() {
        let runs = [[9.0, 91.0], [1.0, 2.0], [2.0, 3.0], [0.0, 0.0]].map(Vec::from).to_vec();
        assert_eq!(middle(runs), [1.5, 2.5]);
        assert_eq!(middle(vec![vec![4.0, 5.0]]), [4.0, 5.0]);
        assert_eq!(middle(vec![vec![4.0], vec![6.0]]), [5.0]);
        assert!(middle(Vec::new()).is_empty());
    }
}
