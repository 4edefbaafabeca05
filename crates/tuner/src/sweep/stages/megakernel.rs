//! Kernels that can be stages of persistent kernels: as one dispatch per op, and fused.

use crate::kernel_tuning::{KernelTuner, RankedStage, Taken, fitting};
use crate::sweep::forms::Forms;
use crate::sweep::merged_step::{MergedStep, is_like, weight, with};
use crate::sweep::stages::merged::COMPARISON;
use crate::sweep::{Candidate, Ended, Stage, Sweep, SweepError, SweepStep};
use std::cmp::Reverse;
use std::time::Duration;
use wgoose_kernels::persistent::NEEDS;
use wgoose_kernels::plan::{Choice, bindable_fusions};
use wgoose_kernels::{HandOver, Plan};
use wgoose_measure::paired::Effort;
use wgoose_measure::result_cache::TrialError;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::InstanceGroup;
use wgoose_measure::space::PersistentGrid;

/// Widths of workgroups: those that kernels of a fixed grid have.
const THREADS: [u32; 3] = [640, 512, 256];

/// Numbers of workgroups that are tried, the most first, in halves of the device's multiprocessors. Stages leave the
/// registers of a multiprocessor to one or two workgroups; whether so many run at once takes a compiled step to find
/// out.
const HALVES_OF_MULTIPROCESSORS: [u32; 3] = [4, 2, 1];

/// What values do that need no barrier.
const ANNOUNCED: &str = "values that announce themselves";

/// The share of the time for stages that goes into finding some that fit, to see how many workgroups run at once.
const PROBE: f64 = 0.15;

/// A stage that reads so many times as slowly as the fastest, and takes half of a step, is not worth a compilation:
/// there is only a naive kernel for it.
const HOPELESS: f64 = 10.0;

/// Whether one of some stages is that slow, each with the fastest kernel that was timed for it.
fn is_hopeless(timed: &[(InstanceGroup, Vec<RankedStage>)]) -> bool {
    let ns = |stages: &[RankedStage]| stages.iter().map(|stage| stage.ns).fold(f64::INFINITY, f64::min);
    let speed = |group: &InstanceGroup, stages: &[RankedStage]| group.instance.bytes() as f64 / ns(stages);
    let fastest = timed.iter().map(|(group, stages)| speed(group, stages)).fold(0.0, f64::max);
    let all_ns: f64 = timed.iter().map(|(group, stages)| ns(stages) * f64::from(group.count)).sum();
    timed.iter().any(|(group, stages)| {
        HOPELESS * speed(group, stages) < fastest && 2.0 * ns(stages) * f64::from(group.count) > all_ns
    })
}

/// What is known of how many workgroups run at once.
struct Resident {
    /// No more than so many.
    most: u32,
    /// Whether so many did.
    is_known: bool,
}

/// The stages of a width.
enum Stages {
    /// A plan for persistent kernels of the best of them, and all that were timed for each kind of op instance.
    Found(Box<Plan>, Vec<(InstanceGroup, Vec<RankedStage>)>),
    /// There are none: the reason.
    None(String),
}

impl Sweep<'_> {
    /// Fuses all that can be fused in decode, finds kernels that can be stages, and compares them with the plan, as one
    /// dispatch per op, then as persistent kernels. Compiling steps of many layers takes seconds; a software adapter,
    /// where they are asked for, tries the plan's fusions and the last width alone.
    pub(in crate::sweep) fn persistent(&mut self, tuner: &KernelTuner<'_>, plan: &mut Plan) -> Result<(), SweepError> {
        let is_cpu = self.problem.limits.is_cpu;
        let most = if is_cpu { THREADS[THREADS.len() - 1] } else { self.problem.limits.workgroup_threads };
        let mut widths: Vec<u32> = THREADS.into_iter().filter(|threads| *threads <= most).collect();
        self.begin(Stage::Persistent, widths.len())?;
        if let Some(missing) = NEEDS.iter().find(|feature| !self.problem.limits.features.contains(feature)) {
            return self.done(SweepStep::NotPersistent(*missing));
        }
        if !self.options.objective.decodes() {
            return Ok(());
        }
        if !self.options.persistent {
            return self.done(SweepStep::NotWorthTrying);
        }
        let mut fused = plan.clone();
        if !is_cpu {
            fused.fusions.decode.append(&mut bindable_fusions(&self.problem.shape, &self.problem.limits));
        }
        // The width comes first that known plans have for such op instances: a short search has time for one.
        let groups = MergedStep::of(self.problem, &fused, PersistentGrid { workgroups: 1, threads: THREADS[0] }).groups;
        let hints: Vec<&Choice> = groups.iter().flat_map(|group| tuner.hints_for(&group.key)).collect();
        let has =
            |choice: &Choice, threads: u32| choice.config.get("WG").is_some_and(|width| *width == threads.to_string());
        widths.sort_by_key(|threads| Reverse(hints.iter().filter(|choice| has(choice, *threads)).count()));
        let mut resident = Resident { most: u32::MAX, is_known: false };
        let (mut untried, mut forms, mut grids, mut won) = (Vec::new(), Forms::new(), Vec::new(), false);
        for (i, threads) in widths.iter().copied().enumerate() {
            let among = if self.ends.is_short { 1 } else { widths.len() - i };
            let share = self.left(self.ends.stages) / among as u32;
            if share.is_zero() {
                untried.push(format!("megakernels of {threads} threads"));
                continue;
            }
            match self.stages(tuner, &fused, (threads, share), &mut resident)? {
                Stages::Found(_, timed) if is_hopeless(&timed) => {
                    let why =
                        format!("alone they take {HOPELESS} times as long as at the speed of the fastest of them");
                    self.done(SweepStep::NoStages { threads, why })?;
                }
                Stages::Found(persistent, timed) => {
                    let workgroups = persistent.persistent.unwrap_or_default();
                    let grid = PersistentGrid { workgroups, threads };
                    timed.into_iter().for_each(|(group, stages)| forms.add(&group, Some(grid), stages));
                    let has_won = self.compare_both(plan, *persistent, threads, share.mul_f64(0.1))? == Ended::Won;
                    // That of the best so far comes first.
                    grids.insert(if has_won { 0 } else { grids.len() }, grid);
                    won |= has_won;
                }
                Stages::None(why) => self.done(SweepStep::NoStages { threads, why })?,
            }
        }
        self.leave_untried(untried, plan)?;
        if !won {
            return Ok(());
        }
        if self.ends.is_short {
            return self.leave_untried(vec![ANNOUNCED.to_owned()], plan);
        }
        // What lies between stages decides which form is the fastest.
        self.announced(plan)?;
        fused.hand_over = plan.hand_over;
        self.find_forms(tuner, &mut forms, (&fused, plan), &grids)?;
        self.merged(tuner, plan, &mut forms)?;
        self.announced(plan)
    }

    /// Compares the best merged step with the same in which values announce themselves, instead of waiting behind
    /// barriers.
    fn announced(&mut self, plan: &mut Plan) -> Result<(), SweepError> {
        if plan.persistent.is_none() || plan.hand_over == HandOver::Announced {
            return Ok(());
        }
        let announced = Plan { hand_over: HandOver::Announced, ..plan.clone() };
        let name = Candidate::Change(ANNOUNCED.to_owned());
        self.challenge(plan, announced, &[Scenario::DECODE], Effort::fine(COMPARISON), name)?;
        Ok(())
    }

    /// The best stages, of as many workgroups as run at once.
    fn stages(
        &mut self,
        tuner: &KernelTuner<'_>,
        fused: &Plan,
        (threads, share): (u32, Duration),
        resident: &mut Resident,
    ) -> Result<Stages, SweepError> {
        let multiprocessors = self.problem.limits.multiprocessors;
        let groups = &MergedStep::of(self.problem, fused, PersistentGrid { workgroups: 1, threads }).groups;
        // A software adapter may have but one of its threads free.
        let counts = match self.problem.limits.is_cpu {
            true => vec![1],
            false => {
                let halves = HALVES_OF_MULTIPROCESSORS.into_iter().skip(usize::from(self.ends.is_short));
                halves.map(|halves| (halves * multiprocessors / 2).max(1)).collect()
            }
        };
        let mut refusal = "no workgroup passes a barrier".to_owned();
        // All numbers of workgroups share it.
        let mut left = share.mul_f64(0.8);
        let most = resident.most;
        for workgroups in counts.into_iter().filter(|n| *n <= most) {
            let grid = PersistentGrid { workgroups, threads };
            // Any stages will do to see whether so many workgroups run at once.
            let tries = if resident.is_known || self.ends.is_short { &[true][..] } else { &[false, true] };
            for is_tuned in tries {
                let time = if *is_tuned { std::mem::take(&mut left) } else { Duration::ZERO };
                let mut ranked = self.ranked(tuner, groups, grid, time)?;
                if ranked.iter().any(Vec::is_empty) {
                    "an op has no kernel that can be one".clone_into(&mut refusal);
                    break;
                }
                let mut best = self.together(groups, &ranked)?;
                if best.is_none() && !is_tuned {
                    // One of each may take too much memory.
                    ranked = self.ranked(tuner, groups, grid, left.mul_f64(PROBE))?;
                    best = self.together(groups, &ranked)?;
                }
                let Some(best) = best else {
                    "its stages need more workgroup memory than there is".clone_into(&mut refusal);
                    break;
                };
                let plan = Plan { persistent: Some(workgroups), ..with(fused, best) };
                match self.cache.resident(&plan) {
                    Ok(()) if *is_tuned => {
                        let timed = groups.iter().cloned().zip(ranked).collect();
                        return Ok(Stages::Found(Box::new(plan), timed));
                    }
                    Ok(()) => *resident = Resident { most: workgroups, is_known: true },
                    Err(TrialError::Failed(reason)) => {
                        refusal = reason.text;
                        break;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(Stages::None(refusal))
    }

    /// Stages for each group, the fastest first, found in that time; they end with the first group that has none.
    fn ranked(
        &mut self,
        tuner: &KernelTuner<'_>,
        groups: &[InstanceGroup],
        grid: PersistentGrid,
        time: Duration,
    ) -> Result<Vec<Vec<RankedStage>>, SweepError> {
        let total: f64 = groups.iter().map(weight).sum();
        let mut ranked: Vec<Vec<RankedStage>> = Vec::new();
        for (i, group) in groups.iter().enumerate() {
            // The first layer's instances lack an operand of the others': what is best there is a good guess here.
            let like = groups[..i].iter().position(|other| is_like(other, group));
            let like = like.and_then(|i| ranked[i].first()).map(|stage| stage.choice.clone());
            let deadline = self.cache.spent() + time.mul_f64(weight(group) / total);
            ranked.push(tuner.best_stages(group, &mut self.cache, grid, (like.as_ref(), deadline))?);
            if ranked.last().is_some_and(Vec::is_empty) {
                // The others are of no use.
                break;
            }
        }
        Ok(ranked)
    }

    /// The fastest stages that fit into the workgroup memory of one kernel. The first layer is a kernel of its own:
    /// there are what is like them. `None` if none fit.
    pub(in crate::sweep) fn together(
        &self,
        groups: &[InstanceGroup],
        ranked: &[Vec<RankedStage>],
    ) -> Result<Option<Vec<Choice>>, SweepError> {
        let like = |i: usize| groups[..i].iter().position(|other| is_like(other, &groups[i]));
        let of_layer: Vec<usize> = (0..groups.len()).filter(|i| like(*i).is_none()).collect();
        let mut stages: Vec<Vec<RankedStage>> = of_layer.iter().map(|i| ranked[*i].clone()).collect();
        for (own, i) in stages.iter_mut().zip(&of_layer) {
            // Each dispatch of a layer is a stage.
            let dispatches = groups[*i].count.div_ceil(self.problem.shape.layers.max(1));
            own.iter_mut().for_each(|stage| stage.memory.own *= dispatches);
        }
        let counts: Vec<u32> = of_layer.iter().map(|i| groups[*i].count).collect();
        let taken: Vec<Vec<Taken>> =
            stages.iter().map(|all| all.iter().map(|stage| (stage.ns, stage.memory)).collect()).collect();
        let Some(picked) = fitting(&taken, &counts, self.problem.limits.workgroup_memory) else { return Ok(None) };
        let mut best: Vec<Choice> = stages.iter().zip(picked).map(|(all, i)| all[i].choice.clone()).collect();
        for (i, like) in (0..groups.len()).filter_map(|i| Some((i, like(i)?))) {
            let Some(at) = of_layer.iter().position(|own| *own == like) else { continue };
            best.push(best[at].for_key(groups[i].key.clone(), &self.options.catalogue)?);
        }
        Ok(Some(best))
    }

    /// Compares the stages with a plan, fused and, where that is not faster, as one dispatch per op.
    fn compare_both(
        &mut self,
        plan: &mut Plan,
        persistent: Plan,
        threads: u32,
        allowance: Duration,
    ) -> Result<Ended, SweepError> {
        let effort = Effort::usual(allowance);
        let per_op = Plan { persistent: None, ..persistent.clone() };
        let workgroups = persistent.persistent.unwrap_or_default();
        let candidate = Candidate::Persistent { threads, workgroups };
        // In a short time there is but one, which is compared at once.
        if !self.ends.is_short && self.is_screened_out([plan, &persistent], Scenario::DECODE, &candidate)? {
            return Ok(Ended::Lost);
        }
        let ended = self.challenge(plan, persistent, &[Scenario::DECODE], effort, candidate)?;
        // A boundary between two dispatches costs more than one between stages: what has lost so has lost.
        if ended == Ended::Won || plan.persistent.is_some() || per_op.hash() == plan.hash() {
            return Ok(ended);
        }
        self.challenge(plan, per_op, &[Scenario::DECODE], effort, Candidate::PerOp { threads })?;
        Ok(ended)
    }
}
