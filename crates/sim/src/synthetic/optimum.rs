//! The best that there is on a made-up device: its times add up, so that the best of each op instance make the best
//! plan, as far as they fit together.

use super::{SimulatedDevice, SimulatedRunner};
use std::collections::{BTreeMap, BTreeSet};
use wgoose_kernels::persistent::{NEEDS, StageMemory, can_be_stage};
use wgoose_kernels::plan::TuningKey;
use wgoose_kernels::{Kernel, Plan, PlanError};
use wgoose_measure::job::Configured;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::PersistentGrid;
use wgoose_measure::space::{Configuration, InstanceGroup, Scope, configurations, groups};

/// Threads of the workgroups of persistent kernels.
const THREADS: [u32; 3] = [640, 512, 256];

/// A decoding step before its kernels are chosen.
struct Outline {
    groups: Vec<InstanceGroup>,
    /// Of the workgroups of its persistent kernels, if it is merged.
    threads: Option<u32>,
    /// No kernels take less.
    bound_ns: f64,
}

impl SimulatedRunner<'_> {
    /// True nanoseconds of decoding with the best plan that there is: over the layouts, the fusions that default, all,
    /// or sets that make every op have, and those beside them, and merged or not, where a CPU does not play the device.
    pub fn best_decode_ns(&mut self, scope: Scope) -> f64 {
        let (mut known, mut outlines) = (BTreeMap::new(), Vec::new());
        for plan in self.problem.laid_out() {
            for fusions in self.problem.fusion_sets() {
                let all = groups(&self.problem.shape, Scenario::DECODE, &fusions, &self.problem.formats_on_gpu(&plan));
                let limits = &self.problem.limits;
                let can_merge = !limits.is_cpu && NEEDS.iter().all(|feature| limits.features.contains(feature));
                let merged = THREADS.into_iter().map(Some).filter(|_| can_merge);
                for threads in [None].into_iter().chain(merged).filter(|_| !all.is_empty()) {
                    let bound_ns = self.bound_ns(&all, threads, scope, &mut known);
                    outlines.push(Outline { groups: all.clone(), threads, bound_ns });
                }
            }
        }
        outlines.sort_by(|a, b| a.bound_ns.total_cmp(&b.bound_ns));
        let mut best = f64::INFINITY;
        for Outline { groups, threads, bound_ns } in outlines {
            if bound_ns >= best {
                break;
            }
            best = best.min(bound_ns + threads.map_or(0.0, |threads| self.loss_to_memory(&groups, threads, scope)));
        }
        best
    }

    /// What each kind of op instance takes of a decoding step with a plan, and the least that it could take in a merged
    /// step of the same fusions, in nanoseconds.
    ///
    /// # Errors
    /// The plan has no kernel for something.
    pub fn losses(&mut self, plan: &Plan, scope: Scope) -> Result<Vec<(TuningKey, [f64; 2])>, PlanError> {
        let mut losses = Vec::new();
        for (group, which) in self.kernels_of(plan, Scenario::DECODE)? {
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

    /// The least that kernels take of a step, whether they fit together or not.
    fn bound_ns(
        &mut self,
        groups: &[InstanceGroup],
        threads: Option<u32>,
        scope: Scope,
        known: &mut BTreeMap<(TuningKey, Option<u32>), f64>,
    ) -> f64 {
        let mut ns = 20_000.0;
        for group in groups {
            let merged = threads.filter(|_| group.in_layers);
            let key = (group.key.clone(), merged);
            let each = match known.get(&key) {
                Some(ns) => *ns,
                None => self.best_kernel(group, merged, scope),
            };
            known.insert(key, each);
            let SimulatedDevice { barrier_ns, announced_ns, dispatch_ns, .. } = self.device;
            let between = if merged.is_some() { barrier_ns.min(announced_ns) } else { dispatch_ns };
            ns += (each + between) * f64::from(group.count);
        }
        ns
    }

    /// What a merged step takes longer because its stages must fit into the memory of a workgroup.
    fn loss_to_memory(&mut self, groups: &[InstanceGroup], threads: u32, scope: Scope) -> f64 {
        let limits = &self.problem.limits;
        let mut stages: Vec<Vec<(f64, StageMemory)>> = Vec::new();
        for group in groups.iter().filter(|group| group.in_layers) {
            // The first layer is a kernel of its own.
            let dispatches = group.count / self.problem.shape.layers.saturating_sub(1).max(1);
            let mut kept: Vec<(f64, StageMemory)> = Vec::new();
            for (ns, kernel) in self.kernels_by_time(group, Some(threads), scope) {
                let StageMemory { shared, own } = StageMemory::of(&kernel);
                let (loss, own) = (ns * f64::from(group.count), own * dispatches);
                if kept.iter().all(|(_, other)| shared < other.shared || own < other.own) {
                    kept.push((loss, StageMemory { shared, own }));
                }
                if shared == 0 && own == 0 {
                    break;
                }
            }
            let least = kept.first().map_or(0.0, |(ns, _)| *ns);
            stages.push(kept.into_iter().map(|(ns, memory)| (ns - least, memory)).collect());
        }
        let bounds: BTreeSet<u32> = stages.iter().flatten().map(|(_, memory)| memory.shared).collect();
        let losses = bounds.into_iter().filter_map(|bound| least_loss(&stages, bound, limits.workgroup_memory));
        losses.fold(f64::INFINITY, f64::min)
    }

    /// The least that an op instance takes, alone or as a stage.
    fn best_kernel(&mut self, group: &InstanceGroup, threads: Option<u32>, scope: Scope) -> f64 {
        self.kernels_by_time(group, threads, scope).next().map_or(f64::INFINITY, |(ns, _)| ns)
    }

    /// The kernels of an op instance, alone or as stages, the fastest first.
    fn kernels_by_time<'b>(
        &'b mut self,
        group: &'b InstanceGroup,
        threads: Option<u32>,
        scope: Scope,
    ) -> impl Iterator<Item = (f64, Kernel)> + 'b {
        let (problem, catalogue) = (self.problem, self.catalogue);
        let (all, _) = configurations(group, &problem.limits, scope, catalogue);
        let grid = threads.map(|threads| PersistentGrid { workgroups: self.device.resident, threads });
        let mut timed = Vec::new();
        for c in all.into_iter().filter(|c| c.refusal.is_none()) {
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
        let kernel = move |(ns, c): (f64, Configuration<'_>)| {
            let kernel = Kernel::new(c.variant, &group.instance, &c.config, &problem.limits).ok()?;
            threads.is_none_or(|threads| can_be_stage(&kernel, threads)).then_some((ns, kernel))
        };
        timed.into_iter().filter_map(kernel)
    }
}

/// The least that stages lose together, of lists of losses, if they share no more than `bound` bytes and take no more
/// than `limit`.
fn least_loss(stages: &[Vec<(f64, StageMemory)>], bound: u32, limit: u32) -> Option<f64> {
    let own = limit.checked_sub(StageMemory::of_all([StageMemory { shared: bound, own: 0 }]))?;
    // The least loss for each number of bytes that is worth it.
    let mut least = vec![(0.0, 0)];
    for list in stages {
        let mut next: Vec<(f64, u32)> = Vec::new();
        for (loss, memory) in list.iter().filter(|(_, memory)| memory.shared <= bound) {
            next.extend(least.iter().map(|(before, bytes)| (before + loss, bytes + memory.own)));
        }
        next.retain(|(_, bytes)| *bytes <= own);
        next.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        least.clear();
        for (loss, bytes) in next {
            if least.last().is_none_or(|(_, fewest)| bytes < *fewest) {
                least.push((loss, bytes));
            }
        }
    }
    least.first().map(|(loss, _)| *loss)
}
