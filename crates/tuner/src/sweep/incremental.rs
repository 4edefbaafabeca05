//! The search where whole steps are slow: a win is confirmed and kept at once, and what is tried next is what should gain the most in a
//! second.
//!
//! A *move* changes what one scenario runs: its kernels, a fusion, the layout of a format, the chunk. Its op instances are tuned alone
//! for a while, then the plan is compared with the best so far in that scenario, by samples that stop as soon as it is faster or
//! cannot be, then with the default. Scenarios that the move leaves alone need no samples. What a move may gain is a guess at first, and
//! half of what the same move gained after that; what it takes follows from what this device was seen to take.

use super::strategy::{Found, Strategy};
use super::{Candidate, Event, Part, Stage, Step, Sweep, SweepError, Timed, share_of, tell, working};
use crate::kernel_tuning::{KernelTuner, TunedKernel};
use crate::memo::TrialError;
use crate::paired::{Effort, PairedResult};
use crate::scenario::Scenario;
use crate::seeds::Planted;
use crate::space::{InstanceGroup, groups_as_run};
use crate::stats::sequential::Question;
use crate::stats::verdict::Verdict;
use crate::structure::{Change, changes};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;
use wgoose_kernels::plan::bindable_fusions;
use wgoose_kernels::{Plan, bucket};

/// The search where whole steps are slow.
#[derive(Debug)]
pub(super) struct Incremental;

impl Strategy for Incremental {
    fn name(&self) -> &'static str {
        "incremental"
    }

    fn find(&self, sweep: &mut Sweep<'_>, planted: &Planted) -> Result<Found, SweepError> {
        // One process confirms what was found: others take the time of a search.
        sweep.ends.is_short = true;
        // Elsewhere the reference is computed meanwhile, and waited for once something has won.
        if sweep.problem.limits.is_cpu {
            sweep.check_default()?;
        }
        let tuner = sweep.tuner().with_seeds(planted);
        let best = sweep.in_use.clone().unwrap_or_else(|| sweep.default.clone());
        let mut climb = Climb { sweep, tuner, right: best.clone(), best, moves: Vec::new() };
        climb.moves = climb.all_moves();
        climb.run()?;
        climb.check_default()?;
        if climb.best.hash() != climb.right.hash() && climb.sweep.passes(&climb.best, &Candidate::Winners)? {
            climb.right = climb.best;
        }
        Ok(Found { structure: climb.right.clone(), plan: climb.right, alone: Vec::new() })
    }
}

/// What other kernels for a scenario may gain, as a logarithm.
const KERNELS: f64 = 0.2;

/// What a layout of the matrices that a step reads may gain, where it is of all of them.
const LAYOUT: f64 = 0.3;

/// What another chunk may gain.
const CHUNK: f64 = 0.05;

/// What a fusion may gain, beside the time between dispatches.
const FUSION: f64 = 0.02;

/// The part of the time between the dispatches that a fusion leaves out that it may gain: the fused kernel may be slower.
const HOPE: f64 = 0.5;

/// Of what a move gained, the part that it may gain when it is made again; of what it was guessed to gain, where it gained nothing.
const AGAIN: f64 = 0.5;

/// A move that may gain less is not worth a comparison: it cannot be told from noise.
const LEAST: f64 = 0.01;

/// Kernels of each kind of op instance that a move tries, about.
const KERNELS_EACH: f64 = 8.0;

/// The same where little time is left.
const FEWEST_EACH: f64 = 2.0;

/// The share of the budget that a move may spend on kernels, at the most.
const TUNING: f64 = 0.2;

/// Of the kinds of op instance of a pass the default kernels of those are timed that do so much of its work together, those first that
/// do the most.
const WORK: f64 = 0.97;

/// Of these are tuned those that take so much of their time together, the costliest first.
const COSTLY: f64 = 0.9;

/// A comparison or a gate that takes no more than this share of the budget is made after every win.
const CHEAP: f64 = 0.04;

/// A change of what a scenario runs.
struct Move {
    /// What it changes beside kernels, if anything.
    change: Option<Change>,
    /// What it must speed up.
    scenario: Scenario,
    /// The logarithm of how many times as fast the scenario may become.
    gain: f64,
}

impl Move {
    fn candidate(&self) -> Candidate {
        match &self.change {
            Some(change) => Candidate::Change(change.name.clone()),
            None => Candidate::Kernels(self.scenario),
        }
    }
}

/// A search that is under way.
struct Climb<'s, 'a, 't> {
    sweep: &'s mut Sweep<'a>,
    tuner: KernelTuner<'t>,
    /// The best by comparisons.
    best: Plan,
    /// The best that passed the gate.
    right: Plan,
    moves: Vec<Move>,
}

impl Climb<'_, '_, '_> {
    /// All that can be changed.
    fn all_moves(&self) -> Vec<Move> {
        let Sweep { problem, options, .. } = &*self.sweep;
        let (objective, parts) = (&options.objective, &options.parts);
        let mut moves = Vec::new();
        if parts.contains(&Part::Kernels) {
            let kernels = |scenario| Move { change: None, scenario, gain: KERNELS };
            moves.extend(objective.scenarios().into_iter().map(kernels));
        }
        let fusions = bindable_fusions(&problem.shape, &problem.limits);
        for change in changes(&self.best, &problem.layouts(), &fusions, &options.chunks, objective) {
            let (guess, Some(scenario)) = (self.guess(&change), change.scenarios.first().copied()) else { continue };
            if parts.contains(&change.part) {
                moves.push(Move { change: Some(change), scenario, gain: guess });
            }
        }
        moves
    }

    /// What fusions of decode may gain, once it is known what a step takes beside its kernels: a fusion that leaves out dispatches leaves
    /// out what lies between them.
    fn guess_fusions(&mut self) {
        let samples = self.sweep.memo.samples();
        let Some((step_ns, _)) = samples.get(&Scenario::DECODE).copied() else { return };
        let sites = self.sites(&self.best, Scenario::DECODE);
        let kernels_ns: f64 = sites.iter().map(|site| self.fastest_ns(site) * f64::from(site.count)).sum();
        let dispatches = |sites: &[InstanceGroup]| f64::from(sites.iter().map(|site| site.count).sum::<u32>());
        let all = dispatches(&sites);
        let between = (1.0 - kernels_ns / step_ns).clamp(0.0, 1.0) / all.max(1.0);
        for i in 0..self.moves.len() {
            let Move { change: Some(change), scenario: Scenario::DECODE, gain } = &self.moves[i] else { continue };
            if change.part == Part::Fusions && *gain > LEAST {
                let mut changed = self.best.clone();
                (change.apply)(&mut changed);
                let saved = all - dispatches(&self.sites(&changed, Scenario::DECODE));
                self.moves[i].gain = (FUSION + HOPE * saved * between).max(LEAST);
            }
        }
    }

    /// Median nanoseconds of the fastest kernel that was timed for an op instance; none where none was.
    fn fastest_ns(&self, site: &InstanceGroup) -> f64 {
        let timed = self.sweep.memo.timed(site).into_iter().map(|(_, ns)| ns);
        timed.min_by(f64::total_cmp).unwrap_or_default()
    }

    /// What a change may gain in its first scenario.
    fn guess(&self, change: &Change) -> f64 {
        match (change.part, change.scenarios.first()) {
            (Part::Layouts, Some(scenario)) => {
                let mut changed = self.best.clone();
                (change.apply)(&mut changed);
                let [before, after] = [&self.best, &changed].map(|plan| self.sites(plan, *scenario));
                let all: u64 = after.iter().map(InstanceGroup::bytes).sum();
                let new = after.iter().filter(|site| before.iter().all(|known| known.key != site.key));
                LAYOUT * new.map(InstanceGroup::bytes).sum::<u64>() as f64 / all.max(1) as f64
            }
            (Part::Chunk, _) => CHUNK,
            _ => FUSION,
        }
    }

    /// Makes moves for as long as there is one that fits into what is left of the time.
    fn run(&mut self) -> Result<(), SweepError> {
        loop {
            self.guess_fusions();
            let fitting = self.fitting(self.left());
            let next = fitting.into_iter().max_by(|(_, a, _), (_, b, _)| a.total_cmp(b));
            let Some((next, _, tuning)) = next else { break };
            let mut made = self.moves.swap_remove(next);
            let gained = self.make(&made, Duration::from_secs_f64(tuning.max(0.0)))?;
            let is_kernels = made.change.is_none();
            made.gain = AGAIN * gained.unwrap_or(if is_kernels { made.gain } else { 0.0 });
            // Kernels can be varied further; a fusion, a layout or a chunk is there or is not.
            if is_kernels {
                self.moves.push(made);
            }
        }
        let untried = self.moves.iter().filter(|made| made.gain > LEAST);
        let untried = untried.map(|made| made.candidate().to_string()).collect();
        self.sweep.leave_untried(untried, &self.best)
    }

    /// How much a scenario counts, 0 to 1.
    fn weight(&self, scenario: Scenario) -> f64 {
        let shares = self.sweep.options.objective.shares();
        shares.filter(|(other, _)| *other == scenario).map(|(_, share)| share).sum()
    }

    /// Seconds until the best plan must be looked at for the last time.
    fn left(&self) -> f64 {
        let sweep = &*self.sweep;
        let budget = working(sweep.options.budget);
        // What is confirmed is compared once more, in a fresh process.
        let changed = sweep.options.objective.scenarios().into_iter();
        let changed = changed.filter(|scenario| !sweep.problem.run_alike([&sweep.default, &self.best], *scenario));
        let start = sweep.memo.start().unwrap_or_default().as_secs_f64();
        let confirming = changed.map(|scenario| sweep.comparison(scenario)).sum::<f64>() + start;
        let gates = u8::from(!sweep.gated) + u8::from(self.best.hash() != self.right.hash());
        let gates = f64::from(gates) * sweep.gate_seconds();
        budget.saturating_sub(sweep.memo.spent()).as_secs_f64() - confirming - gates
    }

    /// The moves that are worth their time: which, what each gains in a second, and how long it spends on kernels.
    fn fitting(&self, left: f64) -> Vec<(usize, f64, f64)> {
        let mut fitting = Vec::new();
        for (i, made) in self.moves.iter().enumerate().filter(|(_, made)| made.gain > LEAST) {
            let fixed = self.comparing(made);
            let [least, usual] = self.tuning(made);
            let tuning = usual.min(left - fixed);
            if tuning >= least {
                fitting.push((i, made.gain * self.weight(made.scenario) / (fixed + tuning), tuning));
            }
        }
        fitting
    }

    /// Seconds of a move's comparisons: with the best plan and the default, and in a fresh process; and of the gate.
    fn comparing(&self, made: &Move) -> f64 {
        let sweep = &*self.sweep;
        let others = match &made.change {
            None => 0.0,
            Some(change) => {
                let mut changed = self.best.clone();
                (change.apply)(&mut changed);
                let others = change.scenarios.iter().filter(|other| **other != made.scenario);
                let differ = |other: &&Scenario| !sweep.problem.run_alike([&self.best, &changed], **other);
                others.filter(differ).map(|other| sweep.comparison(*other)).sum()
            }
        };
        let times = if self.is_compared_twice(made.scenario) { 3.0 } else { 2.0 };
        // One gate is taken in the end, of whatever has won.
        let has_won = self.best.hash() != self.right.hash();
        let gate = if self.is_gated_at_once() || !has_won { sweep.gate_seconds() } else { 0.0 };
        times * sweep.comparison(made.scenario) + 2.0 * others + gate
    }

    /// Seconds that a move spends on kernels: at the least, and where there is time.
    fn tuning(&self, made: &Move) -> [f64; 2] {
        if !self.sweep.options.parts.contains(&Part::Kernels) {
            return [0.0; 2];
        }
        let sites = match &made.change {
            None => self.sites(&self.best, made.scenario).len(),
            Some(change) => self.new_sites(change, made.scenario).len(),
        };
        let each = self.sweep.kernel_seconds();
        let most = share_of(working(self.sweep.options.budget), TUNING).as_secs_f64();
        [FEWEST_EACH, KERNELS_EACH].map(|kernels| (sites as f64 * kernels * each).min(most))
    }

    /// The op instances that a change brings into a scenario.
    fn new_sites(&self, change: &Change, scenario: Scenario) -> Vec<InstanceGroup> {
        let mut changed = self.best.clone();
        (change.apply)(&mut changed);
        let known = self.sites(&self.best, scenario);
        let mut sites = self.sites(&changed, scenario);
        sites.retain(|site| known.iter().all(|known| known.key != site.key));
        sites
    }

    /// Kinds of op instance of a scenario's passes, those first that compute the most. The head of a prompt is decode's.
    fn sites(&self, plan: &Plan, scenario: Scenario) -> Vec<InstanceGroup> {
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

    /// Makes a move: the logarithm of how many times as fast its scenario became, if the plan is the best now.
    fn make(&mut self, made: &Move, time: Duration) -> Result<Option<f64>, SweepError> {
        let candidate = made.candidate();
        tell(self.sweep.listen, Event::Trying(candidate.clone()))?;
        let mut plan = self.best.clone();
        let mut sites = self.sites(&self.best, made.scenario);
        if let Some(change) = &made.change {
            sites = self.new_sites(change, made.scenario);
            (change.apply)(&mut plan);
        }
        let has_kernels = !time.is_zero() && !sites.is_empty();
        let predicted = if has_kernels { self.tune(&mut plan, sites, made.scenario, time)? } else { 0.0 };
        if made.change.is_none() && predicted < LEAST {
            let why = format!("x{:.2} by its kernels alone", predicted.exp());
            self.sweep.done(Step::Unpromising { candidate, why })?;
            return Ok(None);
        }
        self.keep(plan, made, candidate)
    }

    /// Tunes kernels of op instances for a while and puts those that won into a plan: the logarithm of how many times as fast all of them
    /// are together, by their times alone.
    fn tune(
        &mut self,
        plan: &mut Plan,
        sites: Vec<InstanceGroup>,
        scenario: Scenario,
        time: Duration,
    ) -> Result<f64, SweepError> {
        let begun = self.sweep.memo.spent();
        let costs = self.costs(sites)?;
        let all: f64 = costs.iter().map(|(ns, _)| ns).sum();
        let left = (begun + time).saturating_sub(self.sweep.memo.spent());
        let begun = self.sweep.memo.spent();
        self.sweep.begin(Stage::Kernels, costs.len())?;
        let (mut claimed, mut saved) = (0.0, 0.0);
        for (ns, site) in costs {
            claimed += ns / all;
            // A kernel that has won is likely to be fast for other instances of its op.
            let hints: Vec<Plan> = self.sweep.options.hints.iter().chain([&*plan]).cloned().collect();
            let won = plan.choices.iter().find(|choice| choice.key == site.key).cloned();
            let tuner = self.tuner.with_hints(&hints);
            let found =
                tuner.tune_on(&site, &mut self.sweep.memo, won.as_ref(), begun + left.mul_f64(claimed.min(1.0)))?;
            let TunedKernel { winner, default_ns, best_ns, tried, .. } = found;
            let (key, gain) = (site.key.clone(), default_ns / best_ns);
            self.sweep.done(Step::Kernel { key, winner: winner.clone(), gain, tried })?;
            if let Some(choice) = winner.filter(|choice| Some(choice) != won.as_ref()) {
                saved += ns * (1.0 - (best_ns / default_ns).min(1.0));
                plan.adopt(choice);
                self.leave_shorter_alone(plan, &site, scenario)?;
            }
        }
        Ok(-(1.0 - saved / all.max(1.0)).ln())
    }

    /// The kinds of op instance that are worth tuning, with the nanoseconds that all of a kind take by default, the costliest first.
    fn costs(&mut self, sites: Vec<InstanceGroup>) -> Result<Vec<(f64, InstanceGroup)>, SweepError> {
        self.sweep.begin(Stage::Costs, sites.len())?;
        let (whole, mut done) = (sites.iter().map(work).sum::<u64>() as f64, 0.0);
        let mut costs: Vec<(f64, InstanceGroup)> = Vec::new();
        for site in sites {
            if done > WORK * whole {
                break;
            }
            done += work(&site) as f64;
            let ns = self.tuner.default_ns(&site, &mut self.sweep.memo)?;
            self.sweep.done(Step::cost(&site, ns))?;
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
        Ok(costs)
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
                plan.adopt(self.tuner.default_choice(&shorter, &mut self.sweep.memo)?);
            }
        }
        Ok(())
    }

    /// Compares a plan with the best, then with the default, in the scenario that it must speed up; it is the best then if it is slower
    /// in none of the others that it changes, and right.
    fn keep(&mut self, plan: Plan, made: &Move, candidate: Candidate) -> Result<Option<f64>, SweepError> {
        if plan.hash() == self.best.hash() {
            return Ok(None);
        }
        let (best, default, scenario) = (self.best.clone(), self.sweep.default.clone(), made.scenario);
        let (usual, mut timed) = (Effort::usual(Duration::ZERO), Vec::new());
        let faster = usual.asking(Question::IsFaster);
        let first = self.compare([&best, &plan], scenario, false, faster, &mut timed, &candidate)?;
        let Some(first) = first.filter(is_fast) else { return self.lost(candidate, timed) };
        // Other samples decide, and say what the plan is worth; where they take long those of the process that confirms it do.
        let mut worth = first.clone();
        if self.is_compared_twice(scenario) {
            let second = self.compare([&default, &plan], scenario, true, usual, &mut timed, &candidate)?;
            let Some(second) = second.filter(is_fast) else { return self.lost(candidate, timed) };
            worth = second;
        }
        let scenarios = self.sweep.options.objective.scenarios();
        for other in scenarios.into_iter().filter(|other| *other != scenario) {
            if self.sweep.problem.run_alike([&best, &plan], other) {
                self.sweep.memo.alike(&plan, other, &best)?;
                continue;
            }
            let slower = usual.asking(Question::IsSlower);
            let result = self.compare([&default, &plan], other, false, slower, &mut timed, &candidate)?;
            if result.is_none_or(|result| result.is_surely_slower()) {
                return self.lost(candidate, timed);
            }
        }
        self.check_default()?;
        if self.is_gated_at_once() {
            if !self.sweep.passes(&plan, &candidate)? {
                return Ok(None);
            }
            self.right = plan.clone();
        }
        self.best = plan;
        let step = Step::Compared { candidate, timed };
        self.sweep.memo.decide("kept", step.to_string(), &self.best)?;
        self.sweep.done(step)?;
        tell(self.sweep.listen, Event::Best { scenario, gain: worth.comparison.log_ratio.exp() })?;
        Ok(Some(first.comparison.log_ratio))
    }

    /// Whether what wins in a scenario is compared once more before it is confirmed: where that is cheap, or where the first comparison
    /// was not one with the default.
    fn is_compared_twice(&self, scenario: Scenario) -> bool {
        let sweep = &*self.sweep;
        let is_cheap = sweep.comparison(scenario) <= CHEAP * working(sweep.options.budget).as_secs_f64();
        is_cheap || !sweep.problem.run_alike([&sweep.default, &self.best], scenario)
    }

    /// Whether a plan that wins now passes the gate at once: the first one, and all where that is cheap. The others do in the end.
    fn is_gated_at_once(&self) -> bool {
        let sweep = &*self.sweep;
        let is_cheap = sweep.gate_seconds() <= CHEAP * working(sweep.options.budget).as_secs_f64();
        is_cheap || self.right.hash() == sweep.default.hash()
    }

    /// That the default is right, once.
    fn check_default(&mut self) -> Result<(), SweepError> {
        if !std::mem::replace(&mut self.sweep.gated, true) {
            self.sweep.check_default()?;
        }
        Ok(())
    }

    /// Says what a candidate lost by.
    fn lost(&mut self, candidate: Candidate, timed: Vec<Timed>) -> Result<Option<f64>, SweepError> {
        if !timed.is_empty() {
            let step = Step::Compared { candidate, timed };
            self.sweep.memo.decide("compared", step.to_string(), &self.best)?;
            self.sweep.done(step)?;
        }
        Ok(None)
    }

    /// A comparison; `None` if one of the plans does not run, or the time is over.
    fn compare(
        &mut self,
        pair: [&Plan; 2],
        scenario: Scenario,
        held_out: bool,
        effort: Effort,
        timed: &mut Vec<Timed>,
        candidate: &Candidate,
    ) -> Result<Option<PairedResult>, SweepError> {
        match self.sweep.memo.steps(pair, scenario, held_out, effort) {
            Ok(result) => {
                let verdict = if result.is_surely_slower() { Verdict::Slow } else { result.comparison.verdict };
                timed.push(Timed { scenario, result: result.clone(), verdict });
                Ok(Some(result))
            }
            Err(TrialError::Failed(reason)) => {
                self.sweep.done(Step::NotRun { candidate: candidate.clone(), why: reason.to_string() })?;
                Ok(None)
            }
            Err(TrialError::OutOfTime) => {
                self.sweep.leave_untried(vec![candidate.to_string()], &self.best)?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn is_fast(result: &PairedResult) -> bool {
    result.comparison.verdict == Verdict::Fast
}

/// Bytes that op instances move, and half a byte for each operation: a slow device computes about as slowly as it reads.
fn work(group: &InstanceGroup) -> u64 {
    let flops = (wgoose_kernels::ops::kernels(&group.instance.op).flops)(&group.instance);
    group.bytes() + u64::from(group.count) * flops / 2
}
