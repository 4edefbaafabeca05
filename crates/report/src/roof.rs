//! The roofline of a site: the least time that its bytes and operations could take.

use super::view::View;
use std::collections::{BTreeSet, HashMap};
use wgoose_graph::{Format, Fusion, FusionSet};
use wgoose_kernels::plan::TuningKey;
use wgoose_kernels::{Plan, ops};
use wgoose_measure::job::{PlanId, SiteId};
use wgoose_measure::ledger::{Record, SessionRecord};
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::{InstanceGroup, groups};

/// What a device does at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceiling {
    /// Bytes read per nanosecond (GB/s).
    pub bytes: f64,
    /// Floating-point operations per nanosecond (GFLOP/s).
    pub flops: f64,
    /// Whether it was measured as such (`wgoose dev roofline`), and not reached by a kernel of the ledger.
    pub is_measured: bool,
}

/// What an instance moves and computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Work {
    pub(super) bytes: f64,
    pub(super) flops: f64,
    /// How many instances a pass has.
    pub(super) count: u32,
}

impl Work {
    /// The least nanoseconds that it could take.
    pub(super) fn least_ns(self, ceiling: Ceiling) -> f64 {
        (self.bytes / ceiling.bytes).max(self.flops / ceiling.flops)
    }
}

/// The instances of a model's passes, made again from the sizes in a ledger: a site's key has the formats, the passes
/// the rest.
pub(super) struct Instances<'a> {
    view: &'a View<'a>,
    fusions: BTreeSet<FusionSet>,
    known: HashMap<Scenario, Vec<InstanceGroup>>,
}

impl<'a> Instances<'a> {
    pub(super) fn of(view: &'a View<'a>) -> Self {
        let mut fusions: BTreeSet<FusionSet> = Fusion::covering_sets().into_iter().collect();
        for plan in plans(view) {
            fusions.extend([&plan.fusions.decode, &plan.fusions.batched, &plan.fusions.prefill].map(Clone::clone));
        }
        Instances { view, fusions, known: HashMap::new() }
    }

    /// The instances of a site, if some pass of the model has them.
    pub(super) fn find(&mut self, site: &SiteId) -> Option<InstanceGroup> {
        let shape = self.view.session?.shape;
        let sequences = site.segments.max(1);
        let scenario = Scenario { tokens: (site.rows / sequences).max(1), sequences, from_start: false };
        let fusions = &self.fusions;
        let known = self.known.entry(scenario).or_insert_with(|| {
            let all = fusions.iter().flat_map(|set| groups(&shape, scenario, set, &|_| Format::F32));
            let mut seen: BTreeSet<TuningKey> = BTreeSet::new();
            all.filter(|group| seen.insert(group.key.clone())).collect()
        });
        let SiteId { key, rows, .. } = site;
        let is_it = |group: &&InstanceGroup| {
            let other = &group.key;
            let formats = group.instance.inputs.iter().filter(|input| input.format.is_some()).count();
            (&other.op, other.k, other.m, other.up_to_rows) == (&key.op, key.k, key.m, key.up_to_rows)
                && (formats, group.instance.rows) == (key.formats.len(), *rows)
        };
        let mut found = known.iter().find(is_it)?.clone();
        let matrices = found.instance.inputs.iter_mut().filter(|input| input.format.is_some());
        matrices.zip(&key.formats).for_each(|(input, format)| input.format = Some(*format));
        found.key = key.clone();
        Some(found)
    }

    /// The sweep that says what model and device these are.
    pub(super) fn session(&self) -> Option<&'a SessionRecord> {
        self.view.session
    }

    /// The plan that every other is held against.
    pub(super) fn default_plan(&self) -> Option<&'a Plan> {
        let default = &self.view.session?.default;
        plans(self.view).find(|plan| PlanId::of(plan) == *default)
    }
}

fn plans<'a>(view: &'a View<'a>) -> impl Iterator<Item = &'a Plan> {
    view.records.as_slice().iter().filter_map(|entry| match &entry.record {
        Record::Plan(known) if view.is_device(&known.plan.device) => Some(&*known.plan),
        _ => None,
    })
}

/// What the instances of a group move and compute.
pub(super) fn work(group: &InstanceGroup) -> Work {
    let flops = (ops::kernels(&group.instance.op).flops)(&group.instance) as f64;
    Work { bytes: group.instance.bytes() as f64, flops, count: group.count }
}
