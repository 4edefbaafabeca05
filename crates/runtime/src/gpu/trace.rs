//! A pass op by op: each op's value is copied out before another op overwrites it.

use super::GpuExecutor;
use super::step::{BoundDispatch, Step};
use crate::schedule::BufferId;
use crate::trace::Names;
use crate::{Batch, RuntimeError, Traced, packed};
use std::sync::Arc;
use wgoose_graph::{Graph, NodeId};
use wgoose_kernels::{Kernel, Packed};
use wgoose_loader::Model;

/// An op that has run.
pub(crate) struct Ran<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) node: NodeId,
    /// What computed it; where a matrix is bound in shards, the kernel of the first.
    pub(crate) kernel: &'a Kernel,
    /// What of it is stored as f16.
    pub(crate) packed: Packed,
    /// What it made; empty if it only updates state.
    pub(crate) values: Vec<f32>,
}

/// Is given each op as it has run.
type OnOp<'a> = dyn FnMut(&GpuExecutor, Ran<'_>) -> Result<(), RuntimeError> + 'a;

impl GpuExecutor {
    /// The model.
    pub(crate) fn model(&self) -> &Arc<Model> {
        &self.shared.model
    }

    /// The graph of a batch.
    pub(crate) fn graph_of(&mut self, batch: &Batch) -> Result<&Graph, RuntimeError> {
        self.graphs.make(self.shared.model.shape(), batch.target, &self.planner.plan.fusions)?;
        Ok(self.graphs.of_pass(&batch.pass()))
    }

    /// See [`crate::Executor::trace`].
    pub(super) fn trace_values(
        &mut self,
        batch: &Batch,
        on_value: &mut dyn FnMut(&Traced<'_>),
    ) -> Result<Vec<f32>, RuntimeError> {
        let (mut names, shape) = (Names::default(), batch.shape());
        self.run_by_op(batch, &mut |_, ran| {
            if !ran.values.is_empty() {
                on_value(&names.traced(ran.graph, ran.node, &shape, &ran.values));
            }
            Ok(())
        })
    }

    /// Runs a batch op by op, waiting for each; returns the result of the pass.
    ///
    /// # Errors
    /// As [`crate::Executor::run`], what `on_op` returns, and [`RuntimeError::Streamed`] if weights take turns.
    pub(crate) fn run_by_op(&mut self, batch: &Batch, on_op: &mut OnOp<'_>) -> Result<Vec<f32>, RuntimeError> {
        let pass = batch.pass();
        let mut step = self.open_step(&pass)?;
        if !step.ready
            && let Err(e) = self.cold_start(&mut step, false)
        {
            return self.keep_step(pass, Err(e)).map(|()| Vec::new());
        }
        let result = match step.ready {
            true => self.ops_of(&step, batch, on_op),
            false => Err(RuntimeError::Streamed),
        };
        self.keep_step(pass, Ok(step))?;
        result
    }

    fn ops_of(&self, step: &Step, batch: &Batch, on_op: &mut OnOp<'_>) -> Result<Vec<f32>, RuntimeError> {
        self.write_tables(batch);
        let (graph, shape, recording) = (self.graphs.of_pass(&batch.pass()), batch.shape(), &step.recording);
        let bound: Vec<&BoundDispatch> = step.bound.iter().flatten().flatten().collect();
        let (mut first, mut result) = (0, Vec::new());
        for shards in recording.dispatches.chunk_by(|a, b| a.node == b.node) {
            let node = shards[0].node;
            let value = graph.op(node).shape;
            let floats = u64::from(value.planes) * u64::from(shape.rows(value.rows)) * u64::from(value.cols);
            if let Some(slot) = recording.arena.slot.get(&node).filter(|_| graph.op(node).op.in_place().is_none()) {
                // What an op leaves out is no number, here as in the reference.
                let nothing = vec![0xff; floats as usize * 4];
                self.shared.device.queue.write_buffer(&self.buffers[BufferId::Slot(*slot)], 0, &nothing);
            }
            let mut encoder =
                self.shared.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            bound[first..first + shards.len()].iter().for_each(|dispatch| dispatch.encode(&mut pass));
            drop(pass);
            self.shared.device.queue.submit([encoder.finish()]);
            first += shards.len();
            let kernel = &recording.kernels[shards[0].kernel];
            let during = format_args!("running {}", kernel.label);
            let read = |slot, bytes| self.shared.device.read(&self.buffers[BufferId::Slot(slot)], 0, bytes, during);
            let values = match recording.arena.slot.get(&node) {
                Some(slot) if recording.packed.contains(&node) => packed::unpack(&read(*slot, floats * 2)?),
                Some(slot) => bytemuck::pod_collect_to_vec(&read(*slot, floats * 4)?),
                None => Vec::new(),
            };
            if graph.output() == Some(node) {
                result.clone_from(&values);
            }
            let packed = recording.packed_of(graph, node);
            on_op(self, Ran { graph, node, kernel, packed, values })?;
        }
        self.shared.device.wait("tracing a pass")?;
        Ok(result)
    }
}
