//! The task of a search: the model on the device, how to search, and what follows from the two alone.

use super::changes::{Change, changes};
use super::ends::working;
use super::options::{Part, SweepOptions};
use crate::kernel_tuning::KernelTuner;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wgoose_graph::FusionSet;
use wgoose_kernels::plan::{Fusions, bindable_fusions};
use wgoose_kernels::{Plan, ops};
use wgoose_measure::job::PlanId;
use wgoose_measure::ledger::SessionRecord;
use wgoose_measure::problem::Problem;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::{InstanceGroup, Scope, groups, groups_as_run};

/// The task of a search. Nothing in it changes.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    /// The model on the device.
    pub(super) problem: &'a Problem,
    /// How to search.
    pub(super) options: &'a SweepOptions,
}

impl<'a> Task<'a> {
    /// The time to spend until the end begins.
    pub(super) fn budget(self) -> Duration {
        working(self.options.budget)
    }

    /// Whether a part of a plan is decided.
    pub(super) fn decides(self, part: Part) -> bool {
        self.options.parts.contains(&part)
    }

    /// Whether all of a plan is.
    pub(super) fn decides_all(self) -> bool {
        Part::ALL.into_iter().all(|part| self.decides(part))
    }

    /// The part of the space of kernels that is tried.
    pub(super) fn scope(self) -> Scope {
        Scope { allowed: self.options.allowed, exhaustive: self.options.exhaustive }
    }

    /// What kernels are tuned with.
    pub(super) fn tuner(self) -> KernelTuner<'a> {
        let options = self.options;
        KernelTuner::new(&self.problem.limits, &options.catalogue, self.scope()).with_hints(&options.hints)
    }

    /// Fusions that the device can bind.
    pub(super) fn bindable_fusions(self) -> FusionSet {
        bindable_fusions(&self.problem.shape, &self.problem.limits)
    }

    /// Changes of a plan's structure that may be decided.
    pub(super) fn changes(self, start: &Plan) -> Vec<Change> {
        let Task { problem, options } = self;
        let decided = (&*options.chunks, options.allowed);
        let mut all = changes(start, &problem.layouts(), &self.bindable_fusions(), decided, &options.objective);
        all.retain(|change| self.decides(change.part));
        all
    }

    /// Ops for which the user brought kernels or seeds.
    pub(super) fn brought(self) -> BTreeSet<String> {
        let differing = self.options.catalogue.differing();
        let has_files = |folder: &str| differing.iter().any(|file| file.path.starts_with(&format!("ops/{folder}/")));
        let has_seeds = |op: &str| self.options.seeds.iter().any(|seed| seed.op == op);
        let brought = ops::ALL.iter().filter(|op| has_files(op.folder) || has_seeds(op.name));
        brought.map(|op| op.name.to_owned()).collect()
    }

    /// The kinds of op instance of a plan's decoding.
    pub(super) fn decode_sites(self, plan: &Plan) -> Vec<InstanceGroup> {
        let problem = self.problem;
        groups(&problem.shape, Scenario::DECODE, &plan.fusions.decode, &problem.formats_on_gpu(plan))
    }

    /// Tokens of the longest pass of a prompt, if prompts are timed.
    pub(super) fn longest_pass(self, plan: &Plan) -> Option<u32> {
        self.options.objective.prompts().last().map(|prompt| prompt.tokens.min(plan.prefill_chunk))
    }

    /// The passes that people run, each with its kinds of op instance.
    pub(super) fn timed_passes(self, plan: &Plan) -> Vec<(Scenario, Vec<InstanceGroup>)> {
        let objective = &self.options.objective;
        let Fusions { decode, batched, prefill } = &plan.fusions;
        let mut passes = Vec::new();
        passes.extend(objective.decodes().then_some((Scenario::DECODE, decode)));
        passes.extend(self.longest_pass(plan).map(|tokens| (Scenario::prefill(tokens), prefill)));
        passes.extend(objective.batches().into_iter().map(|batch| (batch, batched)));
        let with_sites = |(scenario, fusions)| (scenario, self.sites_as_run(plan, scenario, fusions));
        passes.into_iter().map(with_sites).collect()
    }

    /// The kinds of op instance of a pass of a plan.
    pub(super) fn sites_as_run(self, plan: &Plan, pass: Scenario, fusions: &FusionSet) -> Vec<InstanceGroup> {
        let known = (&self.problem.limits, &*self.options.catalogue);
        groups_as_run(plan, pass, fusions, &self.problem.formats_on_gpu(plan), known)
    }

    /// What is known at the beginning.
    pub(super) fn session(self, start: Option<Duration>) -> SessionRecord {
        let Task { problem, options } = self;
        SessionRecord {
            at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            device: problem.default.device.clone(),
            limits: Box::new(problem.limits.clone()),
            model: problem.model.clone(),
            shape: problem.shape,
            default: PlanId::of(&problem.default),
            budget: options.budget.as_secs_f64(),
            start: start.map(|start| start.as_secs_f64()),
        }
    }
}
