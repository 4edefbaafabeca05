//! The best that there is on a made-up device: its times add up, so that the best of each op instance make the best plan.

use super::SyntheticLab;
use crate::job::Configured;
use crate::kernel_tuning::PersistentGrid;
use crate::scenario::Scenario;
use crate::space::{InstanceGroup, Scope, configurations, groups};
use std::collections::{BTreeMap, BTreeSet};
use wgoose_graph::{Format, Fusion, FusionSet};
use wgoose_kernels::persistent::can_be_stage;
use wgoose_kernels::plan::{TuningKey, bindable_fusions};
use wgoose_kernels::{Kernel, Plan, PlanError};

/// Threads of the workgroups of persistent kernels.
const THREADS: [u32; 3] = [640, 512, 256];

impl SyntheticLab<'_> {
    /// True nanoseconds of decoding with the best plan that there is: over the layouts, the fusions that default, all, or sets that make
    /// every op have, and their neighbours, and merged or not.
    pub fn best_decode_ns(&mut self, scope: Scope) -> f64 {
        let mut known = BTreeMap::new();
        let mut best = f64::INFINITY;
        for interleave in layouts(&self.problem.layouts().interleaved) {
            let plan = Plan { interleave, ..self.problem.default.clone() };
            for fusions in self.fusion_sets() {
                best = best.min(self.best_of(&plan, &fusions, scope, &mut known));
            }
        }
        best
    }

    /// What each kind of op instance takes of a decoding step with a plan, and the least that it could take in a merged step of the
    /// same fusions, in nanoseconds.
    ///
    /// # Errors
    /// The plan has no kernel for something.
    pub fn losses(&mut self, plan: &Plan, scope: Scope) -> Result<Vec<(TuningKey, [f64; 2])>, PlanError> {
        let (problem, catalogue) = (self.problem, self.catalogue);
        let all = groups(&problem.shape, Scenario::DECODE, &plan.fusions.decode, &problem.formats_on_gpu(plan));
        let mut losses = Vec::new();
        for group in all {
            let chosen = plan.first_admitted(&group.instance, &problem.limits, catalogue)?;
            let Some((variant, config)) = chosen else { continue };
            let (variant, config) = (variant.name().to_owned(), variant.spell(&config));
            let which = Configured { variant, config, text: String::new() };
            let is_merged = plan.persistent.is_some() && group.in_layers;
            let (ns, best) = match is_merged {
                true => {
                    let best = THREADS.map(|threads| self.best_kernel(&group, Some(threads), scope));
                    (self.stage_ns(&group, &which), best.into_iter().fold(f64::INFINITY, f64::min))
                }
                false => (self.kernel_ns(&group, &which), self.best_kernel(&group, None, scope)),
            };
            losses.push((group.key, [ns, best].map(|ns| ns * f64::from(group.count))));
        }
        Ok(losses)
    }

    /// Sets of fusions that are worth a look.
    fn fusion_sets(&self) -> BTreeSet<FusionSet> {
        let bindable = bindable_fusions(&self.problem.shape, &self.problem.limits);
        let covering = Fusion::covering_sets().map(|set| &set & &bindable);
        let begin = [self.problem.default.fusions.decode.clone(), bindable.clone()].into_iter().chain(covering);
        let mut sets: BTreeSet<FusionSet> = begin.collect();
        for set in sets.clone() {
            sets.extend(bindable.iter().map(|fusion| &set ^ &FusionSet::from([*fusion])));
        }
        sets
    }

    /// The least that decoding takes with these fusions and layouts.
    fn best_of(
        &mut self,
        plan: &Plan,
        fusions: &FusionSet,
        scope: Scope,
        known: &mut BTreeMap<(TuningKey, Option<u32>), f64>,
    ) -> f64 {
        let problem = self.problem;
        let all = groups(&problem.shape, Scenario::DECODE, fusions, &problem.formats_on_gpu(plan));
        if all.is_empty() {
            return f64::INFINITY;
        }
        let mut best = f64::INFINITY;
        for threads in [None].into_iter().chain(THREADS.map(Some)) {
            let mut ns = 20_000.0;
            for group in &all {
                let merged = threads.filter(|_| group.in_layers);
                let key = (group.key.clone(), merged);
                let each = match known.get(&key) {
                    Some(ns) => *ns,
                    None => self.best_kernel(group, merged, scope),
                };
                known.insert(key, each);
                let between = if merged.is_some() { self.device.barrier_ns } else { self.device.dispatch_ns };
                ns += (each + between) * f64::from(group.count);
            }
            best = best.min(ns);
        }
        best
    }

    /// The least that an op instance takes, alone or as a stage.
    fn best_kernel(&mut self, group: &InstanceGroup, threads: Option<u32>, scope: Scope) -> f64 {
        let (problem, catalogue) = (self.problem, self.catalogue);
        let (all, _) = configurations(&group.instance, &problem.limits, scope, catalogue);
        let grid = threads.map(|threads| PersistentGrid { workgroups: self.device.resident, threads });
        let mut timed = Vec::new();
        for c in all.iter().filter(|c| c.refusal.is_none()) {
            if grid.is_some_and(|grid| !grid.admits(c.variant, &c.config, &problem.limits)) {
                continue;
            }
            let (variant, config) = (c.variant.name().to_owned(), c.variant.spell(&c.config));
            let which = Configured { variant, config, text: String::new() };
            let ns = match threads {
                Some(_) => self.stage_ns(group, &which),
                None => self.kernel_ns(group, &which),
            };
            timed.push((ns, c));
        }
        timed.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let runs = |c: &crate::space::Configuration<'_>| {
            let kernel = Kernel::new(c.variant, &group.instance, &c.config, &problem.limits);
            kernel.is_ok_and(|kernel| threads.is_none_or(|threads| can_be_stage(&kernel, threads)))
        };
        timed.into_iter().find(|(_, c)| runs(c)).map_or(f64::INFINITY, |(ns, _)| ns)
    }
}

/// Every set of formats.
fn layouts(formats: &BTreeSet<Format>) -> Vec<BTreeSet<Format>> {
    let all: Vec<Format> = formats.iter().copied().collect();
    let chosen = |bits: usize| all.iter().enumerate().filter(move |(i, _)| bits >> i & 1 == 1).map(|(_, f)| *f);
    (0..1usize << all.len()).map(|bits| chosen(bits).collect()).collect()
}
