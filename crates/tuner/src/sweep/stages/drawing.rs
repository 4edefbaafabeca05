//! Plans that are drawn: another form of a scenario, each as likely as the next, with the fastest of the kernels that
//! were drawn for it.

use crate::kernel_tuning::{KernelTuner, RankedPhase};
use crate::sweep::changes::Toggle;
use crate::sweep::megakernel_step::{MegakernelStep, together};
use crate::sweep::task::Task;
use crate::sweep::trials::Trials;
use crate::sweep::{Part, SweepError};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use std::collections::BTreeMap;
use wgoose_kernels::Plan;
use wgoose_kernels::plan::TuningKey;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::{InstanceGroup, PersistentGrid, groups};
use wgoose_measure::stats::rng::below;

/// Kernels that are drawn for an op instance each time that a form has it.
const DRAWN: usize = 8;

/// Threads of the workgroups of a megakernel; `None`: a dispatch per op.
const WIDTHS: [Option<u32>; 4] = [None, Some(640), Some(512), Some(256)];

/// Plans that are drawn, and the kernels that were.
pub(in crate::sweep) struct DrawnPlans<'t> {
    tuner: KernelTuner<'t>,
    rng: SplitMix64,
    /// The kernels of kinds of op instances, alone or as phases of so many threads, the fastest first.
    kernels: BTreeMap<(TuningKey, Option<u32>), Vec<RankedPhase>>,
}

impl<'t> DrawnPlans<'t> {
    /// Before any was drawn.
    pub(in crate::sweep) fn new(tuner: KernelTuner<'t>) -> Self {
        DrawnPlans { tuner, rng: SplitMix64::seed_from_u64(0), kernels: BTreeMap::new() }
    }

    /// A scenario: each has its turn.
    pub(in crate::sweep) fn scenario(&mut self, task: Task<'_>) -> Scenario {
        let scenarios = task.options.objective.scenarios();
        scenarios[self.below(scenarios.len())]
    }

    /// A plan that runs a scenario in another form, with the fastest of the kernels that were drawn for it until now;
    /// `None` if these do not fit together.
    pub(in crate::sweep) fn plan(
        &mut self,
        trials: &mut Trials<'_>,
        plan: &Plan,
        scenario: Scenario,
    ) -> Result<Option<Plan>, SweepError> {
        match scenario {
            Scenario::DECODE => self.step(trials, plan),
            _ => self.pass(trials, plan, scenario).map(Some),
        }
    }

    fn below(&mut self, n: usize) -> usize {
        below(&mut self.rng, n)
    }

    /// Another chunk, and other kernels.
    fn pass(&mut self, trials: &mut Trials<'_>, plan: &Plan, scenario: Scenario) -> Result<Plan, SweepError> {
        let task = trials.task();
        let mut plan = plan.clone();
        let chunks = &task.options.chunks;
        if scenario.tokens > 1 && !chunks.is_empty() && task.decides(Part::Chunk) {
            plan.prefill_chunk = chunks[self.below(chunks.len())];
        }
        let tokens = scenario.tokens.min(plan.prefill_chunk);
        let fusions = if scenario.tokens > 1 { &plan.fusions.prefill } else { &plan.fusions.batched };
        let pass = Scenario { tokens, ..scenario };
        let groups = groups(&task.problem.shape, pass, fusions, &task.problem.formats_on_gpu(&plan));
        self.with_fastest(trials, plan, &groups)
    }

    /// Other layouts, fusions and widths, and other kernels.
    fn step(&mut self, trials: &mut Trials<'_>, plan: &Plan) -> Result<Option<Plan>, SweepError> {
        let task = trials.task();
        let mut plan = plan.clone();
        let (layouts, has_layouts) = (task.problem.layouts(), task.decides(Part::Layouts));
        let interleaved = layouts.interleaved.into_iter().map(Toggle::Interleaved);
        let layouts = interleaved.chain(layouts.k_major.into_iter().map(Toggle::KMajor)).filter(|_| has_layouts);
        let (fusions, has_fusions) = (task.bindable_fusions(), task.decides(Part::Fusions));
        let toggles = layouts.chain(fusions.into_iter().map(Toggle::Fusion).filter(|_| has_fusions));
        toggles.filter(|_| self.below(2) == 0).for_each(|toggle| toggle.apply(&mut plan));
        let may_persist = task.options.persistent && task.decides(Part::Kernels);
        let threads = WIDTHS[self.below(WIDTHS.len())].filter(|_| may_persist);
        let workgroups = task.problem.limits.multiprocessors.max(1);
        plan.persistent = threads.map(|_| workgroups);
        let grid = PersistentGrid { workgroups, threads: threads.unwrap_or_default() };
        let MegakernelStep { groups, beside, .. } = MegakernelStep::of(task, &plan, grid);
        let (phases, apart) = match threads {
            Some(_) => (groups, beside),
            None => (Vec::new(), [groups, beside].concat()),
        };
        let mut ranked = Vec::new();
        for group in &phases {
            ranked.push(self.kernels(trials, group, Some(grid))?);
        }
        let Some(phases) = together(task, &phases, &ranked)? else { return Ok(None) };
        phases.into_iter().for_each(|choice| plan.adopt(choice));
        self.with_fastest(trials, plan, &apart).map(Some)
    }

    /// A plan with the fastest kernel drawn for each of some op instances.
    fn with_fastest(
        &mut self,
        trials: &mut Trials<'_>,
        mut plan: Plan,
        groups: &[InstanceGroup],
    ) -> Result<Plan, SweepError> {
        let decides = trials.task().decides(Part::Kernels);
        for group in groups.iter().filter(|_| decides) {
            if let Some(fastest) = self.kernels(trials, group, None)?.first() {
                plan.adopt(fastest.choice.clone());
            }
        }
        Ok(plan)
    }

    /// All kernels that were drawn for an op instance, the fastest first, some more among them.
    fn kernels(
        &mut self,
        trials: &mut Trials<'_>,
        group: &InstanceGroup,
        grid: Option<PersistentGrid>,
    ) -> Result<Vec<RankedPhase>, SweepError> {
        let known = self.kernels.entry((group.key.clone(), grid.map(|grid| grid.threads))).or_default();
        for phase in self.tuner.drawn(group, trials.jobs(), grid, (DRAWN, &mut self.rng))? {
            if known.iter().all(|other| other.choice != phase.choice) {
                known.push(phase);
            }
        }
        known.sort_by(|a, b| a.ns.total_cmp(&b.ns));
        Ok(known.clone())
    }
}
