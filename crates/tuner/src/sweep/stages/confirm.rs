//! The end of a sweep: what won, together, against the default plan.

use crate::sweep::stages::merged::PROMISING;
use crate::sweep::{
    Candidate, Ended, Event, Found, Stage, Sweep, SweepError, SweepStep, Timed, share_of, tell, working,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wgoose_kernels::plan::{Choice, Evidence, Fusions};
use wgoose_kernels::{HandOver, Plan, bucket};
use wgoose_measure::derive::{Policy, derive};
use wgoose_measure::job::Job;
use wgoose_measure::paired::Effort;
use wgoose_measure::result_cache::{TrialError, paired, pool};
use wgoose_measure::scenario::Scenario;

/// Fresh processes in which a plan is compared with the default: memory lies elsewhere in each.
const PROCESSES: u32 = 3;

/// The share of the budget that these may take: one is all that a short one has time for.
const CONFIRMED: f64 = 0.5;

/// The share of the budget that starts of processes may take for their first tokens. Where they take more, none is
/// timed.
const STARTS: f64 = 0.12;

impl Sweep<'_> {
    /// The assembled plan against the default; kernels that do not pay in the step are dropped, and then decoding has
    /// the structure that won with default kernels. What then fails the gate, or is slower than the default in
    /// anything, is no plan.
    pub(in crate::sweep) fn confirm(&mut self, found: Found) -> Result<Plan, SweepError> {
        let Found { structure, mut plan, alone: tuned } = found;
        let objective = &self.options.objective;
        let scenarios = objective.scenarios();
        self.begin(Stage::Confirm, tuned.len() + scenarios.len())?;
        let left = working(self.options.budget).saturating_sub(self.cache.spent());
        let takes = if plan.hash() == self.default.hash() { Duration::ZERO } else { self.confirming() };
        tell(self.listen, Event::Ending(takes.min(left)))?;
        if plan.hash() != self.default.hash() {
            self.cache.go_on();
        }
        let (is_apart, starts) = (self.cache.start().is_some(), objective.starts());
        if is_apart && self.starts().is_empty() {
            self.leave_untried(starts.iter().map(ToString::to_string).collect(), &plan)?;
        }
        let left = working(self.options.budget).saturating_sub(self.cache.spent());
        let allowance = left / (2 * tuned.len() + scenarios.len()) as u32;
        // What is reported is measured at the end, in processes of its own.
        let (effort, sure) = (Effort::usual(allowance), Effort::sure(allowance));
        for scenario in tuned {
            let rows = match scenario.tokens {
                1 => bucket(scenario.sequences),
                _ => bucket(self.longest_pass(&plan).unwrap_or(plan.prefill_chunk)),
            };
            let mut bare = Plan {
                choices: plan.choices.iter().filter(|c| c.key.up_to_rows != rows).cloned().collect(),
                ..plan.clone()
            };
            if scenario == Scenario::DECODE {
                bare.fusions.decode.clone_from(&structure.fusions.decode);
                (bare.persistent, bare.hand_over) = (None, HandOver::Barrier);
            }
            if bare.choices.len() == plan.choices.len() {
                self.done(SweepStep::Untuned(scenario))?;
                continue;
            }
            let won = plan.choices.iter().filter(|c| c.key.up_to_rows == rows).cloned().collect::<Vec<Choice>>();
            let mut incumbent = bare.clone();
            let ended = self.challenge(&mut incumbent, plan, &[scenario], effort, Candidate::Kernels(scenario))?;
            if ended != Ended::Won && scenario != Scenario::DECODE {
                self.some_of(&mut incumbent, &bare, &won, scenario, effort)?;
            }
            plan = incumbent;
        }
        // What reads prompts may be what fails; then decoding has all that won for it.
        let one_row = bucket(1);
        let decode = Plan {
            prefill_chunk: self.default.prefill_chunk,
            fusions: Fusions { prefill: self.default.fusions.prefill.clone(), ..plan.fusions.clone() },
            choices: plan.choices.iter().filter(|c| c.key.up_to_rows == one_row).cloned().collect(),
            ..plan.clone()
        };
        let best = self.against_in_use(&plan, sure)?;
        let mut candidates = vec![(plan, Candidate::Winners)];
        candidates.extend([(decode, Candidate::Decode), (structure.clone(), Candidate::Structure)]);
        if let Some(best) = best {
            candidates.retain(|(plan, _)| plan.hash() != best.0.hash());
            candidates.insert(0, best);
        }
        candidates.dedup_by_key(|(plan, _)| plan.hash());
        if self.ends.is_short {
            // Without evidence of all that people run it is no plan.
            self.cache.go_on();
        }
        for (plan, candidate) in candidates {
            if plan.hash() != self.default.hash() && self.qualifies(&plan, candidate, sure)? {
                return self.derived();
            }
        }
        let derived = self.derived()?;
        if derived.hash() == self.default.hash() {
            // A comparison of the default with itself would say nothing.
            self.done(SweepStep::NothingFaster)?;
        }
        Ok(derived)
    }

    /// What the end of a sweep takes.
    pub(in crate::sweep) fn confirming(&self) -> Duration {
        let (other, each) = self.takes();
        other + each * self.processes()
    }

    /// What the end of a sweep takes, by what the longest of such comparisons took until now: one for what kernels are
    /// tuned for, first tokens; and each scenario, in each process.
    fn takes(&self) -> (Duration, Duration) {
        let objective = &self.options.objective;
        let (mut screened, mut compared) = (BTreeMap::new(), BTreeMap::new());
        let mut gate = 0.0_f64;
        for (job, cost) in self.cache.took() {
            let learn = |known: &mut BTreeMap<Scenario, f64>, scenario: &Scenario| {
                known.entry(*scenario).and_modify(|known| *known = known.max(cost)).or_insert(cost);
            };
            match job {
                Job::Screen { scenario, .. } => learn(&mut screened, scenario),
                Job::Steps { scenario, .. } | Job::Confirm { scenario, .. } => learn(&mut compared, scenario),
                // The first one waits for the reference.
                Job::Gate { .. } => gate = if gate == 0.0 { cost } else { gate.min(cost) },
                _ => {}
            }
        }
        // The extended one takes about as long.
        let gate = if self.has_extended_gate() { 2.0 * gate } else { gate };
        // A few samples take about half as long as a comparison.
        let screened = |scenario: &Scenario| screened.get(scenario).map(|cost| 2.0 * cost);
        // Of what nothing is known it is guessed that it takes about as long as a process to begin.
        let start = self.cache.start().unwrap_or_default();
        let of = |scenario: &Scenario| {
            let known = compared.get(scenario).copied().or_else(|| screened(scenario));
            known.unwrap_or(start.as_secs_f64())
        };
        let all: f64 = objective.scenarios().iter().map(of).sum();
        let tuned = objective.decodes().then_some(Scenario::DECODE).into_iter();
        let tuned = tuned.chain(objective.prompts().last().copied()).chain(objective.batches());
        let in_use = if self.in_use.is_some() { gate + all } else { 0.0 };
        let together = Duration::from_secs_f64(in_use + gate + tuned.map(|scenario| of(&scenario)).sum::<f64>());
        // Each process has to begin, too.
        (together + self.starting(self.starts().len()), Duration::from_secs_f64(all) + start)
    }

    /// Processes in which a plan is confirmed.
    fn processes(&self) -> u32 {
        let (other, each) = self.takes();
        let fits = other + each * PROCESSES <= share_of(working(self.options.budget), CONFIRMED);
        if fits || !self.ends.is_short { PROCESSES } else { 1 }
    }

    /// What the first tokens of so many scenarios take: a pair of starts before all that are counted, and two in each
    /// process. Each takes half as long again as a process takes to begin: weights are read, too, and the process ends.
    fn starting(&self, scenarios: usize) -> Duration {
        self.cache.start().unwrap_or_default() * (3 * (1 + 2 * PROCESSES) * scenarios as u32)
    }

    /// The scenarios for which processes are started, where that can be timed and does not take what searching needs.
    fn starts(&self) -> Vec<Scenario> {
        let starts = self.options.objective.starts();
        let is_cheap = self.starting(starts.len()) <= share_of(working(self.options.budget), STARTS);
        if self.cache.start().is_some() && is_cheap { starts } else { Vec::new() }
    }

    /// Some of the kernels that were the fastest alone but are not together: those with which a whole pass is faster.
    fn some_of(
        &mut self,
        incumbent: &mut Plan,
        bare: &Plan,
        won: &[Choice],
        scenario: Scenario,
        effort: Effort,
    ) -> Result<(), SweepError> {
        let mut candidate = bare.clone();
        let mut kept = Vec::new();
        for choice in won {
            let mut with_one = bare.clone();
            with_one.adopt(choice.clone());
            if self.screened_gain([bare, &with_one], scenario)?.is_some_and(|gain| gain > PROMISING) {
                candidate.adopt(choice.clone());
                kept.push(choice.clone());
            }
        }
        self.done(SweepStep::Moves { screened: won.len(), promising: kept.len() })?;
        if !kept.is_empty() && kept.len() < won.len() {
            self.challenge(incumbent, candidate, &[scenario], effort, Candidate::Move(kept))?;
        }
        Ok(())
    }

    /// What a few samples say that a candidate gains on a plan, as a log ratio; `None` if one does not run, or there is
    /// no time.
    fn screened_gain(&mut self, pair: [&Plan; 2], scenario: Scenario) -> Result<Option<f64>, SweepError> {
        match self.cache.screen(pair, scenario) {
            Err(TrialError::Failed(_) | TrialError::OutOfTime) => Ok(None),
            found => Ok(Some(found?.log_ratio)),
        }
    }

    /// The best plan that any sweep of this ledger has compared with the default, with its evidence.
    fn derived(&mut self) -> Result<Plan, SweepError> {
        let policy = Policy { allowed: self.options.allowed, without: BTreeSet::new() };
        let records = self.cache.records();
        let derived = derive(records, &self.options.catalogue, &self.options.objective, &policy)?;
        let ledger = self.options.ledger.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(evidence) = derived.plan.evidence.clone() {
            let evidence = Evidence { ledger, without_op: self.without_op.clone(), ..evidence };
            self.cache.decide("derived", derived.decisions.join("; "), &derived.plan)?;
            return Ok(Plan { evidence: Some(evidence), ..derived.plan });
        }
        let (default, gate) = (self.default.clone(), self.default_gate()?);
        let evidence = Evidence {
            plan: String::new(),
            model: self.problem.model.clone(),
            quality_hash: gate.quality_hash.unwrap_or_default(),
            class: gate.class,
            decisions: gate.agreeing.map_or(0, |(_, decisions)| decisions),
            checked: gate.checked.unwrap_or_default(),
            certified: gate.certified.unwrap_or_default(),
            rms_error: gate.rms,
            scenarios: Vec::new(),
            ledger,
            without_op: self.without_op.clone(),
        };
        Ok(default.with_evidence(evidence))
    }

    /// Whether a plan passes the gate and, in fresh processes, is slower than the default in nothing that they do. What
    /// a start takes is counted: one merged kernel more costs tens of milliseconds once, and gains as much with every
    /// hundred tokens.
    fn qualifies(&mut self, plan: &Plan, candidate: Candidate, effort: Effort) -> Result<bool, SweepError> {
        if !self.passes(plan, &candidate)? || !self.passes_extended(plan, &candidate)? {
            return Ok(false);
        }
        let processes = self.processes();
        let (default, each) = (self.default.clone(), effort.in_each_of(processes as usize));
        let is_short = self.ends.is_short;
        let problem = self.problem;
        let is_alike = |scenario: &Scenario| is_short && problem.run_alike([&default, plan], *scenario);
        let (alike, running): (Vec<_>, Vec<_>) = self.options.objective.scenarios().into_iter().partition(is_alike);
        for scenario in alike {
            self.cache.alike(plan, scenario, &default)?;
            self.done(SweepStep::Alike(scenario))?;
        }
        if running.is_empty() {
            return Ok(false);
        }
        // What starts take refuses no plan: they come last, and may be left out.
        for scenarios in [running, self.starts()] {
            let mut all: Vec<(Scenario, [Vec<f64>; 2])> =
                scenarios.into_iter().map(|scenario| (scenario, Default::default())).collect();
            for process in 0..processes {
                for (scenario, samples_ns) in &mut all {
                    let each = if scenario.from_start { self.cache.until_the_end(each) } else { each };
                    match self.cache.confirm([&default, plan], *scenario, process, each) {
                        Ok(new) => pool(samples_ns, &new),
                        Err(TrialError::Failed(reason)) => {
                            self.done(SweepStep::NotRun { candidate, why: reason.to_string() })?;
                            return Ok(false);
                        }
                        Err(TrialError::OutOfTime) if scenario.from_start => {
                            self.leave_untried(vec![scenario.to_string()], plan)?;
                            return Ok(true);
                        }
                        Err(TrialError::OutOfTime) => {
                            self.leave_untried(vec![candidate.to_string()], plan)?;
                            return Ok(false);
                        }
                        Err(error) => return Err(error.into()),
                    }
                    let result = paired(samples_ns, &each.criteria()).map_err(TrialError::from)?;
                    let is_slower = !scenario.from_start && result.is_surely_slower();
                    if process + 1 == processes || is_slower {
                        let verdict = result.comparison.verdict;
                        self.done(SweepStep::Tuned(Timed { scenario: *scenario, result, verdict }))?;
                    }
                    if is_slower {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}
