//! The kernels of a move: which op instances are worth tuning, each for a while, alone.

use crate::kernel_tuning::TunedKernel;
use crate::sweep::strategies::incremental::Climb;
use crate::sweep::{Stage, Sweep, SweepError, SweepStep};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;
use wgoose_kernels::{Plan, bucket};
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::{InstanceGroup, groups_as_run};

/// Of the kinds of op instance of a pass the default kernels of those are timed that do so much of its work together,
/// those first that do the most.
const WORK: f64 = 0.97;

/// Of these are tuned those that take so much of their time together, the costliest first.
const COSTLY: f64 = 0.9;

/// Kernels of a kind of op instance without which timing its default one was in vain.
const FEWEST_TRIED: f64 = 3.0;

impl Climb<'_, '_, '_> {
    /// Kinds of op instance of a scenario's passes, those first that compute the most. The head of a prompt is
    /// decode's.
    pub(in crate::sweep) fn sites(&self, plan: &Plan, scenario: Scenario) -> Vec<InstanceGroup> {
        let Sweep { problem, options, .. } = &*self.sweep;
        let passes = match scenario.tokens {
            1 => vec![1],
            tokens => vec![tokens.min(plan.prefill_chunk), tokens % plan.prefill_chunk],
        };
        let mut sites: Vec<InstanceGroup> = Vec::new();
        for tokens in passes.into_iter().filter(|tokens| *tokens > 1 || scenario.tokens == 1) {
            let fusions = match (scenario.tokens, scenario.sequences) {
                (1, 1) => &plan.fusions.decode,
                (1, _) => &plan.fusions.batched,
                _ => &plan.fusions.prefill,
            };
            let known = (&problem.limits, &*options.catalogue);
            let pass = Scenario { tokens, ..scenario };
            for group in groups_as_run(plan, pass, fusions, &problem.formats_on_gpu(plan), known) {
                let is_head = tokens > 1 && group.instance.rows == 1;
                if !is_head && sites.iter().all(|known| known.key != group.key) {
                    sites.push(group);
                }
            }
        }
        sites.sort_by_key(|group| Reverse(work(group)));
        sites
    }

    /// The op instances that a plan brings into a scenario.
    pub(in crate::sweep) fn new_sites(&self, changed: &Plan, scenario: Scenario) -> Vec<InstanceGroup> {
        let known = self.sites(&self.best, scenario);
        let mut sites = self.sites(changed, scenario);
        sites.retain(|site| known.iter().all(|known| known.key != site.key));
        sites
    }

    /// Tunes kernels of op instances for a while and puts those that won into a plan: the logarithm of how many times
    /// as fast the scenario is with them, by their times alone.
    pub(in crate::sweep) fn tune(
        &mut self,
        plan: &mut Plan,
        sites: Vec<InstanceGroup>,
        scenario: Scenario,
        time: Duration,
    ) -> Result<f64, SweepError> {
        let begun = self.sweep.cache.spent();
        let (mut costs, whole_ns) = self.costs(sites, time)?;
        // What is known to be fast elsewhere comes first.
        costs.sort_by_key(|(_, site)| self.tuner.hints_for(&site.key).is_empty());
        let all: f64 = costs.iter().map(|(ns, _)| ns).sum();
        let left = (begun + time).saturating_sub(self.sweep.cache.spent());
        let begun = self.sweep.cache.spent();
        self.sweep.begin(Stage::Kernels, costs.len())?;
        let (mut claimed, mut saved) = (0.0, 0.0);
        for (ns, site) in costs {
            claimed += ns / all;
            // A kernel that has won is likely to be fast for other instances of its op.
            let hints: Vec<Plan> = self.sweep.options.hints.iter().chain([&*plan]).cloned().collect();
            let won = plan.choices.iter().find(|choice| choice.key == site.key).cloned();
            let tuner = self.tuner.with_hints(&hints);
            let found =
                tuner.tune_on(&site, &mut self.sweep.cache, won.as_ref(), begun + left.mul_f64(claimed.min(1.0)))?;
            let TunedKernel { winner, default_ns, best_ns, tried, .. } = found;
            let (key, gain) = (site.key.clone(), default_ns / best_ns);
            self.sweep.done(SweepStep::Kernel { key, winner: winner.clone(), gain, tried })?;
            if let Some(choice) = winner.filter(|choice| Some(choice) != won.as_ref()) {
                saved += ns * (1.0 - (best_ns / default_ns).min(1.0));
                plan.adopt(choice);
                self.leave_shorter_alone(plan, &site, scenario)?;
            }
        }
        Ok(-(1.0 - saved / whole_ns.max(1.0)).ln())
    }

    /// Puts the kernels of a known plan into one, where they are faster alone than the default's: how many.
    pub(in crate::sweep) fn adopt_known(
        &mut self,
        plan: &mut Plan,
        known: &Plan,
        scenario: Scenario,
    ) -> Result<usize, SweepError> {
        let mut adopted = 0;
        for site in self.sites(plan, scenario) {
            let tuner = self.tuner.with_hints(std::slice::from_ref(known));
            if let Some(choice) = tuner.faster_hint(&site, &mut self.sweep.cache)? {
                plan.adopt(choice);
                adopted += 1;
            }
        }
        Ok(adopted)
    }

    /// The kinds of op instance that are worth tuning and that there is time for, with the nanoseconds that all of a
    /// kind take by default, the costliest first; and what all op instances take, by the work of those that were timed.
    fn costs(
        &mut self,
        sites: Vec<InstanceGroup>,
        time: Duration,
    ) -> Result<(Vec<(f64, InstanceGroup)>, f64), SweepError> {
        self.sweep.begin(Stage::Costs, sites.len())?;
        let (whole, mut done) = (sites.iter().map(work).sum::<u64>() as f64, 0.0);
        let mut costs: Vec<(f64, InstanceGroup)> = Vec::new();
        for site in sites {
            let needed = FEWEST_TRIED * self.sweep.cache.kernel_seconds() * (costs.len() + 1) as f64;
            if done > WORK * whole || (!costs.is_empty() && needed > time.as_secs_f64()) {
                break;
            }
            done += work(&site) as f64;
            let ns = self.tuner.default_ns(&site, &mut self.sweep.cache)?;
            self.sweep.done(SweepStep::cost(&site, ns))?;
            costs.push((ns * f64::from(site.count), site));
        }
        costs.retain(|(ns, _)| ns.is_finite());
        costs.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let all: f64 = costs.iter().map(|(ns, _)| ns).sum();
        let mut before = 0.0;
        costs.retain(|(ns, _)| {
            before += ns;
            before - ns < COSTLY * all
        });
        Ok((costs, all * whole / done.max(1.0)))
    }

    /// Gives shorter prompts the kernels that they have, which a choice for more rows would serve as well.
    fn leave_shorter_alone(
        &mut self,
        plan: &mut Plan,
        site: &InstanceGroup,
        scenario: Scenario,
    ) -> Result<(), SweepError> {
        let prompts = self.sweep.options.objective.prompts();
        let rows: BTreeSet<u32> = prompts
            .iter()
            .filter(|prompt| **prompt != scenario)
            .flat_map(|prompt| [prompt.tokens.min(plan.prefill_chunk), prompt.tokens % plan.prefill_chunk])
            .filter(|rows| *rows > 1 && bucket(*rows) < site.key.up_to_rows)
            .collect();
        for shorter in rows.into_iter().filter_map(|rows| site.with_rows(rows)) {
            if plan.choices.iter().all(|choice| choice.key != shorter.key) {
                plan.adopt(self.tuner.default_choice(&shorter, &mut self.sweep.cache)?);
            }
        }
        Ok(())
    }
}

/// Bytes that op instances move, and half a byte for each operation: a slow device computes about as slowly as it
/// reads.
fn work(group: &InstanceGroup) -> u64 {
    let flops = (wgoose_kernels::ops::kernels(&group.instance.op).flops)(&group.instance);
    group.bytes() + u64::from(group.count) * flops / 2
}
