//! Which forms of a megakernel are worth a look in whole steps: those that by the times of their kernels alone are not
//! far behind.

use crate::kernel_tuning::KernelTuner;
use crate::sweep::changes::Toggle;
use crate::sweep::forms::{Form, Forms};
use crate::sweep::megakernel_step::{MegakernelStep, is_like, weight};
use crate::sweep::task::Task;
use crate::sweep::trials::{COMPARISON, Trials};
use crate::sweep::{Candidate, SweepError, SweepStep, Timed};
use std::collections::BTreeSet;
use std::time::Duration;
use wgoose_kernels::Plan;
use wgoose_kernels::plan::TuningKey;
use wgoose_measure::paired::Effort;
use wgoose_measure::space::{InstanceGroup, PersistentGrid};
use wgoose_measure::stats::verdict::Verdict;

/// The share of the time for forms that goes into those that differ from the first in one thing; the others combine
/// these.
const SINGLE: f64 = 0.7;

/// Things in which a form may differ from the first at once.
const COMBINED: u32 = 4;

/// Things that are combined, at most: those that alone gain the most.
const THINGS: usize = 8;

/// Forms have at most so many more phases in a layer than the first: each costs a boundary.
const MORE_PHASES: u32 = 2;

/// Forms that are slower by more than this share are not looked at in whole steps.
const BEHIND: f64 = 0.08;

/// Before they are not looked at any more, more phases are timed of those that are slower by less than that.
const FAR: f64 = 0.16;

/// How long phases of one kind are timed before the next kind has its turn.
const A_WHILE: Duration = Duration::from_secs(2);

/// Forms that are, at most.
const MOST: usize = 32;

/// A form before its kernels are known.
pub(in crate::sweep) struct Outline {
    toggles: Vec<usize>,
    name: String,
    plan: Plan,
    step: MegakernelStep,
}

/// A form with nanoseconds of its step, by its kernels alone.
pub(in crate::sweep) struct FoundForm {
    outline: Outline,
    pub(in crate::sweep) form: Form,
    ns: f64,
}

/// Finds forms: those that differ from the fused plan in one fusion or layout, at each grid, then those that combine
/// what is not far behind; and the best plan's own, at the first grid. Kernels that are not known yet are timed alone.
pub(super) fn find_forms(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    forms: &mut Forms,
    fused: &Plan,
    best: &Plan,
    grids: &[PersistentGrid],
) -> Result<(), SweepError> {
    let task = trials.task();
    let Some(first) = grids.first().copied() else { return Ok(()) };
    let fusions = task.bindable_fusions().into_iter().map(Toggle::Fusion);
    let layouts = task.problem.layouts();
    let interleaved = layouts.interleaved.into_iter().map(Toggle::Interleaved);
    let mut all: Vec<Toggle> = Vec::new();
    for layout in interleaved.chain(layouts.k_major.into_iter().map(Toggle::KMajor)) {
        if !slows_prompts(trials, best, layout)? {
            all.push(layout);
        }
    }
    all.extend(fusions);

    let (begun, time) = (trials.spent(), trials.left(|ends| ends.forms));
    let sets: Vec<Vec<usize>> = [vec![]].into_iter().chain((0..all.len()).map(|i| vec![i])).collect();
    let alone = outlines(task, fused, grids, &all, &sets);
    let single = with_kernels(trials, tuner, forms, alone, begun + time.mul_f64(SINGLE))?;
    let is_near = |grid: &&PersistentGrid| near(&single).iter().any(|found| found.outline.step.grid == **grid);
    let grids: Vec<PersistentGrid> = grids.iter().filter(is_near).copied().collect();
    let things = worth_combining(&single);
    let subset = |bits: u32| (0..things.len()).filter(|i| bits >> i & 1 == 1).map(|i| things[i]).collect();
    let subsets = (0..1u32 << things.len()).filter(|bits| bits.count_ones() <= COMBINED);
    let combined = outlines(task, fused, &grids, &all, &subsets.map(subset).collect::<Vec<_>>());
    let mut found = with_kernels(trials, tuner, forms, combined, begun + time)?;
    found.truncate(within(&found, FAR).len());
    deepen_phases(trials, tuner, forms, &found, begun + time)?;
    let outlines = found.into_iter().map(|found| found.outline).collect();
    let mut found = with_kernels(trials, tuner, forms, outlines, begun + time)?;
    found.truncate(near(&found).len().min(MOST));
    forms.all = found.into_iter().map(|found| found.form).collect();
    // What the others are held against is one of them, however slow it seems.
    let step = MegakernelStep::of(task, best, first);
    if forms.like(best).is_none()
        && let Some((form, _)) = forms.form("merged", best, &step, task.problem.shape.layers)
    {
        forms.all.push(form);
    }
    Ok(())
}

/// Whether a change of a plan slows a prompt. A few samples of one instance may well say so of what does not: several
/// instances must.
pub(in crate::sweep) fn slows_prompts(
    trials: &mut Trials<'_>,
    plan: &Plan,
    change: Toggle,
) -> Result<bool, SweepError> {
    let mut changed = plan.clone();
    change.apply(&mut changed);
    let (pair, name) = ([plan, &changed], Candidate::Change(format!("megakernel, {}", change.name(plan))));
    for scenario in trials.options().objective.prompts() {
        let compared = match trials.jobs().screen(pair, scenario) {
            Ok(screened) if !screened.has_lost() => continue,
            Ok(_) => trials.jobs().steps(pair, scenario, false, Effort::sure(COMPARISON)),
            Err(error) => Err(error),
        };
        let Ok(result) = trials.reported(compared, &name, plan)? else { return Ok(true) };
        if result.is_surely_slower() {
            let timed = vec![Timed { scenario, result, verdict: Verdict::Slow }];
            trials.done(SweepStep::Compared { candidate: name, timed })?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Times more phases of forms, a while of each kind at a time: those of which the fewest were timed for what they read.
/// A form of which little is known seems slower than it is.
pub(in crate::sweep) fn deepen_phases(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    forms: &mut Forms,
    found: &[FoundForm],
    until: Duration,
) -> Result<(), SweepError> {
    let mut open: BTreeSet<usize> = found.iter().flat_map(|found| found.form.pools()).collect();
    open.retain(|pool| forms.pools[*pool].grid.is_some());
    let known = |forms: &Forms, pool: usize| forms.pools[pool].timed as f64 / weight(&forms.pools[pool].group);
    while trials.spent() < until {
        let least = open.iter().copied().min_by(|a, b| known(forms, *a).total_cmp(&known(forms, *b)));
        let Some(pool) = least else { break };
        let (group, grid, before) = (forms.pools[pool].group.clone(), forms.pools[pool].grid, forms.pools[pool].timed);
        let Some(own) = grid else { break };
        let deadline = until.min(trials.spent() + A_WHILE);
        let phases = tuner.best_phases(&group, trials.jobs(), own, (None, deadline))?;
        forms.add(&group, grid, phases);
        if forms.pools[pool].timed == before {
            open.remove(&pool);
        }
    }
    Ok(())
}

/// Forms that differ from a plan in sets of things, each once.
pub(in crate::sweep) fn outlines(
    task: Task<'_>,
    fused: &Plan,
    grids: &[PersistentGrid],
    all: &[Toggle],
    sets: &[Vec<usize>],
) -> Vec<Outline> {
    let mut outlines: Vec<Outline> = Vec::new();
    let mut known: BTreeSet<(u32, Vec<(TuningKey, u32)>)> = BTreeSet::new();
    for grid in grids.iter().copied() {
        let phases = |step: &MegakernelStep| step.groups.iter().map(|group| group.count).sum::<u32>();
        let most = phases(&MegakernelStep::of(task, fused, grid)) + MORE_PHASES * task.problem.shape.layers;
        for toggles in sets {
            let mut plan = Plan { persistent: Some(grid.workgroups), ..fused.clone() };
            toggles.iter().for_each(|i| all[*i].apply(&mut plan));
            let step = MegakernelStep::of(task, &plan, grid);
            let groups = step.groups.iter().chain(&step.beside);
            let is_new = known.insert((grid.threads, groups.map(|group| (group.key.clone(), group.count)).collect()));
            if is_new && !step.groups.is_empty() && phases(&step) <= most {
                let names: Vec<String> = toggles.iter().map(|i| all[*i].name(fused)).collect();
                let name = [vec![format!("megakernel of {} threads", grid.threads)], names].concat().join(", ");
                outlines.push(Outline { toggles: toggles.clone(), name, plan, step });
            }
        }
    }
    outlines
}

/// Times kernels that are not known yet: forms, the fastest first. Those that there is no time for are none.
pub(in crate::sweep) fn with_kernels(
    trials: &mut Trials<'_>,
    tuner: &KernelTuner<'_>,
    forms: &mut Forms,
    outlines: Vec<Outline>,
    until: Duration,
) -> Result<Vec<FoundForm>, SweepError> {
    let mut new: Vec<(InstanceGroup, Option<PersistentGrid>)> = Vec::new();
    for step in outlines.iter().map(|outline| &outline.step) {
        let phases = step.groups.iter().enumerate();
        let first = phases.filter(|(i, group)| !step.groups[..*i].iter().any(|other| is_like(other, group)));
        let phases = first.map(|(_, group)| (group, Some(step.grid)));
        for (group, grid) in phases.chain(step.beside.iter().map(|group| (group, None))) {
            let is_same = |(other, at): &(InstanceGroup, Option<PersistentGrid>)| other.key == group.key && *at == grid;
            if forms.find(group, grid).is_none() && !new.iter().any(is_same) {
                new.push((group.clone(), grid));
            }
        }
    }
    let (begun, total) = (trials.spent(), new.iter().map(|(group, _)| weight(group)).sum::<f64>());
    let (time, mut claimed) = (until.saturating_sub(begun), 0.0);
    for (group, grid) in new {
        if trials.spent() >= until {
            break;
        }
        claimed += weight(&group);
        let deadline = begun + time.mul_f64(claimed / total);
        let kernels = match grid {
            Some(grid) => tuner.best_phases(&group, trials.jobs(), grid, (None, deadline))?,
            None => tuner.ranked(&group, trials.jobs(), deadline)?,
        };
        forms.add(&group, grid, kernels);
    }
    let layers = trials.problem().shape.layers;
    let mut found: Vec<FoundForm> = Vec::new();
    for outline in outlines {
        if let Some((form, ns)) = forms.form(&outline.name, &outline.plan, &outline.step, layers) {
            found.push(FoundForm { outline, form, ns });
        }
    }
    found.sort_by(|a, b| a.ns.total_cmp(&b.ns));
    Ok(found)
}

/// Those that are not far behind the fastest, of forms of which that is the first.
fn near(found: &[FoundForm]) -> &[FoundForm] {
    within(found, BEHIND)
}

/// Those that are behind the fastest by less than a share.
fn within(found: &[FoundForm], share: f64) -> &[FoundForm] {
    let least = found.first().map_or(0.0, |found| found.ns);
    &found[..found.partition_point(|found| found.ns < least * (1.0 + share))]
}

/// What may be worth while together, of forms that differ from the first of their grid in one thing: what alone is not
/// far behind that one. One that gains much says nothing against another that gains little.
fn worth_combining(single: &[FoundForm]) -> Vec<usize> {
    let first = |of: &FoundForm| {
        let is_first =
            |found: &&FoundForm| found.outline.toggles.is_empty() && found.outline.step.grid == of.outline.step.grid;
        single.iter().find(is_first).map_or(f64::NAN, |found| found.ns)
    };
    let mut things: Vec<(f64, usize)> = Vec::new();
    for found in single {
        let [thing] = found.outline.toggles[..] else { continue };
        let ratio = found.ns / first(found);
        match things.iter_mut().find(|(_, known)| *known == thing) {
            Some((least, _)) => *least = least.min(ratio),
            None => things.push((ratio, thing)),
        }
    }
    things.retain(|(ratio, _)| *ratio < 1.0 + BEHIND);
    things.sort_by(|a, b| a.0.total_cmp(&b.0));
    things.into_iter().take(THINGS).map(|(_, thing)| thing).collect()
}
