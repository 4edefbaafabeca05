//! Random search, which any other must beat: forms of a step and kernels are drawn, each as likely as the next.

use super::{Found, Strategy};
use crate::kernel_tuning::{KernelTuner, RankedStage};
use crate::seeds::Planted;
use crate::sweep::changes::Toggle;
use crate::sweep::merged_step::MergedStep;
use crate::sweep::stages::merged::PROMISING;
use crate::sweep::{Candidate, Part, Sweep, SweepError};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use std::collections::BTreeMap;
use std::time::Duration;
use wgoose_kernels::Plan;
use wgoose_kernels::plan::{TuningKey, bindable_fusions};
use wgoose_measure::paired::Effort;
use wgoose_measure::result_cache::TrialError;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::PersistentGrid;
use wgoose_measure::space::{InstanceGroup, groups};
use wgoose_measure::stats::rng::below;

/// Kernels that are drawn for an op instance each time that a form has it.
const DRAWN: usize = 8;

/// Threads of the workgroups of a step whose layers are merged; `None`: they are not.
const WIDTHS: [Option<u32>; 4] = [None, Some(640), Some(512), Some(256)];

/// Draws in a row of which all that they take is known.
const MOST_KNOWN: usize = 100;

/// Time for a comparison.
const COMPARISON: Duration = Duration::from_millis(2500);

/// Random search.
#[derive(Debug)]
pub(in crate::sweep) struct Random;

impl Strategy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn find(&self, sweep: &mut Sweep<'_>, planted: &Planted) -> Result<Found, SweepError> {
        sweep.check_default()?;
        sweep.gated = true;
        let tuner = sweep.tuner().with_seeds(planted);
        let structure = sweep.default.clone();
        let mut plan = structure.clone();
        let mut draws = Draws { tuner: &tuner, rng: SplitMix64::seed_from_u64(0), drawn: BTreeMap::new() };
        let scenarios = sweep.options.objective.scenarios();
        let end = sweep.end(sweep.ends.layouts);
        let (mut n, mut idle, mut before) = (0, 0, Duration::ZERO);
        // Draws that take no time are known: there may be no others.
        while sweep.cache.spent() < end && idle < MOST_KNOWN {
            n += 1;
            idle = if sweep.cache.spent() > before { 0 } else { idle + 1 };
            before = sweep.cache.spent();
            // Each scenario has its turn.
            let scenario = scenarios[draws.below(scenarios.len())];
            let candidate = sweep.draw(&plan, scenario, &mut draws)?;
            let Some(candidate) = candidate.filter(|candidate| candidate.hash() != plan.hash()) else { continue };
            let gain = match sweep.cache.screen([&plan, &candidate], scenario) {
                Err(TrialError::Failed(_) | TrialError::OutOfTime) => continue,
                screened => screened?.log_ratio,
            };
            if gain > PROMISING {
                let is_alike = (&candidate.interleave, &candidate.k_major) == (&plan.interleave, &plan.k_major);
                let scenarios = if is_alike { vec![scenario] } else { scenarios.clone() };
                let name = Candidate::Change(format!("draw {n}"));
                sweep.challenge(&mut plan, candidate, &scenarios, Effort::usual(COMPARISON), name)?;
            }
        }
        Ok(Found { structure, plan, alone: Vec::new() })
    }
}

/// What kernels are drawn with, and those that were.
struct Draws<'t> {
    tuner: &'t KernelTuner<'t>,
    rng: SplitMix64,
    /// The kernels of kinds of op instances, alone or as stages of so many threads, the fastest first.
    drawn: BTreeMap<(TuningKey, Option<u32>), Vec<RankedStage>>,
}

impl Draws<'_> {
    fn below(&mut self, n: usize) -> usize {
        below(&mut self.rng, n)
    }
}

impl Sweep<'_> {
    /// A plan that does a scenario in another form, with the fastest of the kernels that were drawn for it until now;
    /// `None` if these do not fit together.
    fn draw(&mut self, plan: &Plan, scenario: Scenario, draws: &mut Draws<'_>) -> Result<Option<Plan>, SweepError> {
        match scenario {
            Scenario::DECODE => self.draw_step(plan, draws),
            _ => self.draw_pass(plan, scenario, draws).map(Some),
        }
    }

    fn decides(&self, part: Part) -> bool {
        self.options.parts.contains(&part)
    }

    /// Another chunk, and other kernels.
    fn draw_pass(&mut self, plan: &Plan, scenario: Scenario, draws: &mut Draws<'_>) -> Result<Plan, SweepError> {
        let mut plan = plan.clone();
        let chunks = &self.options.chunks;
        if scenario.tokens > 1 && !chunks.is_empty() && self.decides(Part::Chunk) {
            plan.prefill_chunk = chunks[draws.below(chunks.len())];
        }
        let tokens = scenario.tokens.min(plan.prefill_chunk);
        let fusions = if scenario.tokens > 1 { &plan.fusions.prefill } else { &plan.fusions.batched };
        let (shape, format) = (&self.problem.shape, self.problem.formats_on_gpu(&plan));
        let groups = groups(shape, Scenario { tokens, ..scenario }, fusions, &format);
        self.adopt_drawn(plan.clone(), &groups, draws)
    }

    /// Other layouts, fusions and widths, and other kernels.
    fn draw_step(&mut self, plan: &Plan, draws: &mut Draws<'_>) -> Result<Option<Plan>, SweepError> {
        let mut plan = plan.clone();
        let (layouts, has_layouts) = (self.problem.layouts(), self.decides(Part::Layouts));
        let interleaved = layouts.interleaved.into_iter().map(Toggle::Interleaved);
        let layouts = interleaved.chain(layouts.k_major.into_iter().map(Toggle::KMajor)).filter(|_| has_layouts);
        let (fusions, has_fusions) =
            (bindable_fusions(&self.problem.shape, &self.problem.limits), self.decides(Part::Fusions));
        let toggles = layouts.chain(fusions.into_iter().map(Toggle::Fusion).filter(|_| has_fusions));
        toggles.filter(|_| draws.below(2) == 0).for_each(|toggle| toggle.apply(&mut plan));
        let may_persist = self.options.persistent && self.decides(Part::Kernels);
        let threads = WIDTHS[draws.below(WIDTHS.len())].filter(|_| may_persist);
        let workgroups = self.problem.limits.multiprocessors.max(1);
        plan.persistent = threads.map(|_| workgroups);
        let grid = PersistentGrid { workgroups, threads: threads.unwrap_or_default() };
        let MergedStep { groups, beside, .. } = MergedStep::of(self.problem, &plan, grid);
        let (stages, apart) = match threads {
            Some(_) => (groups, beside),
            None => (Vec::new(), [groups, beside].concat()),
        };
        let mut ranked = Vec::new();
        for group in &stages {
            ranked.push(self.drawn(group, Some(grid), draws)?);
        }
        let Some(stages) = self.together(&stages, &ranked)? else { return Ok(None) };
        stages.into_iter().for_each(|choice| plan.adopt(choice));
        self.adopt_drawn(plan, &apart, draws).map(Some)
    }

    /// A plan with the fastest kernel drawn for each of some op instances.
    fn adopt_drawn(
        &mut self,
        mut plan: Plan,
        groups: &[InstanceGroup],
        draws: &mut Draws<'_>,
    ) -> Result<Plan, SweepError> {
        for group in groups.iter().filter(|_| self.options.parts.contains(&Part::Kernels)) {
            if let Some(fastest) = self.drawn(group, None, draws)?.first() {
                plan.adopt(fastest.choice.clone());
            }
        }
        Ok(plan)
    }

    /// All kernels that were drawn for an op instance, the fastest first, some more among them.
    fn drawn(
        &mut self,
        group: &InstanceGroup,
        grid: Option<PersistentGrid>,
        draws: &mut Draws<'_>,
    ) -> Result<Vec<RankedStage>, SweepError> {
        let Draws { tuner, rng, drawn } = draws;
        let known = drawn.entry((group.key.clone(), grid.map(|grid| grid.threads))).or_default();
        for stage in tuner.drawn(group, &mut self.cache, grid, (DRAWN, rng))? {
            if known.iter().all(|other| other.choice != stage.choice) {
                known.push(stage);
            }
        }
        known.sort_by(|a, b| a.ns.total_cmp(&b.ns));
        Ok(known.clone())
    }
}
