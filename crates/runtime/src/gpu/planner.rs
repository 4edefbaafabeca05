//! What a pass does and where it finds everything, as plain data: of the device only its limits are asked for.

use crate::RuntimeError;
use crate::batch::PassShape;
use crate::residency::{Group, Need, Placed, RowShard, WeightLayout, route, shards_of};
use crate::schedule::{
    Bound, Choose, Dispatch, FuseError, Fused, Memory, Places, Recording, StateLayout, Tensors, fuse, record,
};
use std::sync::Arc;
use wgoose_graph::{BatchShape, Format, Graph, Weight, WeightClass};
use wgoose_kernels::{Catalogue, Limits, Plan};
use wgoose_loader::Model;

/// Makes recordings and memory plans. A copy of it can work on another thread.
#[derive(Clone)]
pub(super) struct Planner {
    pub(super) plan: Plan,
    model: Arc<Model>,
    pub(super) catalogue: Arc<Catalogue>,
    limits: Limits,
}

impl Planner {
    /// For a plan that fits the model, on a device with these limits.
    pub(super) fn new(plan: Plan, model: Arc<Model>, catalogue: Arc<Catalogue>, limits: Limits) -> Self {
        Planner { plan, model, catalogue, limits }
    }

    /// What kernels may use of the device.
    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The format that a weight has on the device.
    pub(super) fn format(&self, weight: Weight) -> Format {
        match weight.class() {
            WeightClass::Vector => Format::F32,
            WeightClass::Adapter | WeightClass::Matrix => {
                self.plan.format_on_gpu(weight, self.model.tensor(weight).format())
            }
        }
    }

    /// A weight as it is bound.
    ///
    /// # Errors
    /// A single row is larger than the largest binding.
    pub(super) fn shards(&self, weight: Weight) -> Result<Vec<RowShard>, RuntimeError> {
        shards_of(weight, self.format(weight), weight.shape(self.model.shape()), &self.limits)
    }

    /// What a pass of that graph does.
    ///
    /// # Errors
    /// No kernel serves an op here, or a value is larger than the device binds.
    pub(super) fn record(&self, graph: &Graph, pass: &PassShape) -> Result<Recording, RuntimeError> {
        let tensors = Tensors {
            format: &|weight| self.format(weight),
            shards: &|weight| Ok(self.shards(weight)?.iter().map(|w| w.first..w.first + w.rows).collect()),
        };
        let like_rows = self.plan.alike(pass.target);
        let limits = &self.plan.limits(&self.limits);
        record(
            graph,
            &pass.batch,
            &tensors,
            &Choose { plan: &self.plan, like_rows, limits, catalogue: &self.catalogue },
        )
    }

    /// The weights of a dispatch.
    ///
    /// # Errors
    /// A single row is larger than the largest binding.
    pub(super) fn needs(&self, dispatch: &Dispatch) -> Result<Need, RuntimeError> {
        let mut need = Need::default();
        for (_, bound) in &dispatch.bindings {
            if let Bound::Weight(weight, index) = *bound {
                need.shards.push(self.shards(weight)?[index]);
            }
        }
        Ok(need)
    }

    /// The groups of a pass, and where it finds everything; weights without a place get one.
    ///
    /// # Errors
    /// The streamed weights of a dispatch exceed the ring.
    pub(super) fn lay_out(
        &self,
        batch: &BatchShape,
        recording: &Recording,
        states: &StateLayout,
        layout: &mut WeightLayout,
    ) -> Result<(Vec<Group>, Memory), RuntimeError> {
        let needs: Vec<Need> = recording.dispatches.iter().map(|d| self.needs(d)).collect::<Result<_, _>>()?;
        layout.assign(needs.iter().flat_map(|n| &n.shards).copied(), &self.limits);
        let groups = route(&needs, &|w| layout.is_streamed(w), layout.ring_bytes())?;
        let memory = self.memory(batch, recording, &groups, states, layout);
        Ok((groups, memory))
    }

    /// Where a pass in these groups finds everything.
    pub(super) fn memory(
        &self,
        batch: &BatchShape,
        recording: &Recording,
        groups: &[Group],
        states: &StateLayout,
        layout: &WeightLayout,
    ) -> Memory {
        let weight = |i: usize, weight, index| {
            let group = &groups[groups.partition_point(|group| group.dispatches.end <= i)];
            layout.range(&placed(group, weight, index))
        };
        Memory::new(recording, batch, &Places { states, weight: &weight }, &self.limits)
    }

    /// A pass with its layers fused, for so many workgroups that stay resident.
    ///
    /// # Errors
    /// It has no such form, or a kernel's file is wrong.
    pub(super) fn fuse(
        &self,
        graph: &Graph,
        chain: (&Recording, &Memory),
        workgroups: u32,
    ) -> Result<Fused, FuseError> {
        fuse(graph, chain, (workgroups, self.plan.hand_over), &self.limits, &self.catalogue)
    }
}

/// All dispatches as one group, with the weights of these groups.
pub(super) fn one_group(groups: &[Group], recording: &Recording) -> Group {
    let weights = groups.iter().flat_map(|group| group.weights.iter().copied()).collect();
    Group { dispatches: 0..recording.dispatches.len(), weights, after: None }
}

/// Where a group has a weight.
fn placed(group: &Group, weight: Weight, index: usize) -> Placed {
    let is = |p: &&Placed| p.shard.weight == weight && p.shard.index == index;
    match group.weights.iter().find(is) {
        Some(placed) => *placed,
        // Groups hold the shards of all their dispatches.
        None => unreachable!("{weight} is not among its group's weights"),
    }
}
