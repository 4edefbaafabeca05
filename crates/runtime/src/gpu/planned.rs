//! What a pass would do, without doing it.

use super::GpuExecutor;
use super::planner::one_group;
use crate::RuntimeError;
use crate::batch::PassShape;
use crate::residency::{Group, WeightLayout};
use crate::schedule::{Fused, Memory, Recording};
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
        let Fused { recording, .. } = self.planner.fuse(self.graphs.of(batch), (&recording, &memory), workgroups)?;
        let group = [one_group(&groups, &recording)];
        let memory = self.planner.memory(batch, &recording, &group, &self.states.layout, &layout);
        Ok(Planned { recording, memory })
    }

    fn chain(&self, batch: &BatchShape, layout: &mut WeightLayout) -> Result<(Vec<Group>, Planned), RuntimeError> {
        let recording = self.planner.record(self.graphs.of(batch), &PassShape::from(*batch))?;
        let (groups, memory) = self.planner.lay_out(batch, &recording, &self.states.layout, layout)?;
        Ok((groups, Planned { recording, memory }))
    }

    pub(super) fn weight_layout(&self) -> WeightLayout {
        self.shared.weights.lock().layout.clone()
    }
}
