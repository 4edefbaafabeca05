//! What a pass would do, without doing it.

use super::GpuExecutor;
use super::step::one_group;
use crate::RuntimeError;
use crate::residency::{Group, WeightLayout};
use crate::schedule::{Fused, Memory, Recording, fuse};
use wgoose_graph::BatchShape;

/// A pass as plain data.
#[derive(Clone, Debug)]
pub struct Planned {
    /// What it runs.
    pub recording: Recording,
    /// Where everything lies that it binds.
    pub memory: Memory,
}

impl GpuExecutor {
    /// What a pass over a batch does as a chain of dispatches, and where everything lies.
    ///
    /// # Errors
    /// No kernel serves an op here, or a value or a budget's ring is too small for it.
    pub fn planned(&self, batch: &BatchShape) -> Result<Planned, RuntimeError> {
        Ok(self.chain(batch, &mut self.weight_layout())?.1)
    }

    /// The same with the layers fused, for so many workgroups that stay resident.
    ///
    /// # Errors
    /// [`RuntimeError::Unfused`] if there is no such form, what [`GpuExecutor::planned`] fails with, or a kernel's file is wrong.
    pub fn planned_fused(&self, batch: &BatchShape, workgroups: u32) -> Result<Planned, RuntimeError> {
        let mut layout = self.weight_layout();
        let (groups, Planned { recording, memory }) = self.chain(batch, &mut layout)?;
        let (graph, limits) = (self.graphs.of(batch), self.shared.device.limits());
        let Fused { recording, .. } = fuse(graph, (&recording, &memory), workgroups, limits, &self.shared.catalogue)?;
        let memory = self.memory_of(batch, &recording, &[one_group(&groups, &recording)], &layout);
        Ok(Planned { recording, memory })
    }

    fn chain(&self, batch: &BatchShape, layout: &mut WeightLayout) -> Result<(Vec<Group>, Planned), RuntimeError> {
        let recording = self.record(batch)?;
        let (groups, memory) = self.lay_out(batch, &recording, &self.all_needs(&recording)?, layout)?;
        Ok((groups, Planned { recording, memory }))
    }

    fn weight_layout(&self) -> WeightLayout {
        self.shared.weights.lock().layout.clone()
    }
}
