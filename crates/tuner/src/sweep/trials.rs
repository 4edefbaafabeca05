//! The trials of a search: it alone runs jobs, reads their results, and knows what was confirmed.
//!
//! A stage asks for trials and gets results. The rules that all stages share are here: which plan is faster, whether a
//! winner passes the gate at once, when a stage must end, and what is said and recorded of a trial that fails or comes
//! too late.

use super::changes::wins;
use super::ending::{self, Ending};
use super::ends::{Ends, share_of};
use super::error::SweepError;
use super::event::{Candidate, Event, Listener, Note, Stage, SweepStep, Timed, tell};
use super::options::SweepOptions;
use super::task::Task;
use std::time::Duration;
use wgoose_kernels::Plan;
use wgoose_measure::ledger::{Gate, UNTRIED};
use wgoose_measure::paired::Effort;
use wgoose_measure::problem::Problem;
use wgoose_measure::result_cache::{ResultCache, TrialError};
use wgoose_measure::running::changes_only_decode;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::stats::verdict::Verdict;

/// Time for a comparison of two plans whose steps are fast.
pub(super) const COMPARISON: Duration = Duration::from_millis(2500);

/// What a few samples say is faster by so much may be worth a comparison: what two instances of one plan differ by.
pub(super) const PROMISING: f64 = 0.004;

/// The trials of a search.
pub struct Trials<'a> {
    task: Task<'a>,
    cache: ResultCache<'a>,
    ends: Ends,
    /// The plan that the device runs the model with today, for as long as nothing speaks against it.
    incumbent: Option<Plan>,
    /// Whether there was no time to see what speaks against it.
    is_unjudged: bool,
    /// Whether a winner must pass the gate at once: the reference may still be computed.
    is_gated: bool,
    /// Whether the gate looks at decoding only, of a plan that changes nothing else: where steps are slow, the rest
    /// would take the time of the search.
    gates_are_narrow: bool,
    /// The comparison of a whole plan that looked the best.
    best_seen: Option<(Candidate, Timed)>,
    listen: Listener<'a>,
}

/// How a challenge ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// The candidate is the best plan now.
    Won,
    /// It is wrong, or slower in something.
    Lost,
    /// It is neither.
    Open,
}

/// Why a trial has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoResult {
    /// A plan does not run.
    NotRun,
    /// The time is over.
    OutOfTime,
}

impl<'a> Trials<'a> {
    /// Those of a search that begins. Where a CPU emulates the device the reference is computed first: a search that is
    /// stopped early has a plan to show.
    pub(super) fn new(task: Task<'a>, cache: ResultCache<'a>, incumbent: Option<Plan>, listen: Listener<'a>) -> Self {
        Trials {
            task,
            cache,
            ends: Ends::of(task.problem, task.options),
            incumbent,
            is_unjudged: false,
            is_gated: task.problem.limits.is_cpu,
            gates_are_narrow: false,
            best_seen: None,
            listen,
        }
    }

    /// What is searched.
    pub(super) fn task(&self) -> Task<'a> {
        self.task
    }

    /// The model on the device.
    pub(super) fn problem(&self) -> &'a Problem {
        self.task.problem
    }

    /// How to search.
    pub(super) fn options(&self) -> &'a SweepOptions {
        self.task.options
    }

    /// All results until now.
    pub(super) fn results(&self) -> &ResultCache<'a> {
        &self.cache
    }

    /// Runs jobs: those of the kernel tuner, and of whole plans those that no method here has a rule for.
    pub(super) fn jobs(&mut self) -> &mut ResultCache<'a> {
        &mut self.cache
    }

    /// Time that was spent.
    pub(super) fn spent(&self) -> Duration {
        self.cache.spent()
    }

    /// Whether the time is over.
    pub(super) fn is_over(&self) -> bool {
        self.spent() >= self.task.budget()
    }

    /// Whether time is short: for one form of the megakernel, and one process that confirms it.
    pub(super) fn is_short(&self) -> bool {
        self.ends.is_short
    }

    /// When a stage before the last one ends, by its share of the budget. The last one has what it takes, but for half
    /// of a budget that is too short for both; kernels have a little in any case.
    pub(super) fn end(&self, share: fn(&Ends) -> f64) -> Duration {
        let (budget, share) = (self.task.budget(), share(&self.ends));
        let kernels = if share < self.ends.kernels { share_of(budget, Ends::KERNELS) } else { Duration::ZERO };
        share_of(budget, share).min(budget - self.ending().whole().min(budget / 2) - kernels)
    }

    /// The time left until a stage ends.
    pub(super) fn left(&self, share: fn(&Ends) -> f64) -> Duration {
        self.end(share).saturating_sub(self.spent())
    }

    /// What the end of the search takes, by the results until now.
    pub(super) fn ending(&self) -> Ending {
        let has_incumbent = self.incumbent.is_some();
        Ending::expected(self.task, &self.cache, self.is_short(), has_incumbent, self.has_extended_gate())
    }

    /// The scenarios for which processes are started at the end.
    pub(super) fn starts(&self) -> Vec<Scenario> {
        ending::starts(self.task, &self.cache)
    }

    /// Whole steps are slow: one process confirms what is found, for others take the time of a search, and a gate looks
    /// at no more than it must.
    pub(super) fn steps_are_slow(&mut self) {
        self.ends.is_short = true;
        self.gates_are_narrow = true;
    }

    /// The plan that the device runs the model with today, unless something speaks against it.
    pub(super) fn incumbent(&self) -> Option<&Plan> {
        self.incumbent.as_ref()
    }

    /// Whether the incumbent was dropped because there was no time to compare it with anything.
    pub(super) fn is_unjudged(&self) -> bool {
        self.is_unjudged
    }

    /// Keeps the incumbent, or drops it. One that is dropped after the time was over was not judged.
    pub(super) fn judge_incumbent(&mut self, incumbent: Option<Plan>) {
        self.incumbent = incumbent;
        self.is_unjudged = self.incumbent.is_none() && self.is_over();
    }

    /// Tells the listener.
    pub(super) fn tell(&mut self, event: Event) -> Result<(), SweepError> {
        tell(self.listen, event)
    }

    /// Says that a stage begins.
    pub(super) fn begin(&mut self, stage: Stage, steps: usize) -> Result<(), SweepError> {
        self.tell(Event::Stage { stage, steps })
    }

    /// Says that a step of a stage is done.
    pub(super) fn done(&mut self, step: SweepStep) -> Result<(), SweepError> {
        if let SweepStep::Compared { candidate, timed } = &step {
            for timed in timed {
                let log_ratio = |timed: &Timed| timed.result.comparison.log_ratio;
                if self.best_seen.as_ref().is_none_or(|(_, best)| log_ratio(best) < log_ratio(timed)) {
                    self.best_seen = Some((candidate.clone(), timed.clone()));
                }
            }
        }
        self.tell(Event::Done(step))
    }

    /// Says what the user should know.
    pub(super) fn note(&mut self, note: Note) -> Result<(), SweepError> {
        self.tell(Event::Note(note))
    }

    /// Records a decision, with the best plan after it, and says it.
    pub(super) fn decide(&mut self, stage: &str, step: SweepStep, best: &Plan) -> Result<(), SweepError> {
        self.cache.decide(stage, step.to_string(), best)?;
        self.done(step)
    }

    /// Says and records what no time was left for.
    pub(super) fn leave_untried(&mut self, names: Vec<String>, best: &Plan) -> Result<(), SweepError> {
        if names.is_empty() {
            return Ok(());
        }
        self.cache.decide(UNTRIED, names.join(", "), best)?;
        self.note(Note::Untried(names))
    }

    /// The result of a candidate's trial; of one that fails or comes too late it is said and recorded.
    pub(super) fn reported<T>(
        &mut self,
        result: Result<T, TrialError>,
        candidate: &Candidate,
        best: &Plan,
    ) -> Result<Result<T, NoResult>, SweepError> {
        match result {
            Ok(result) => Ok(Ok(result)),
            Err(TrialError::Failed(reason)) => {
                self.done(SweepStep::NotRun { candidate: candidate.clone(), why: reason.to_string() })?;
                Ok(Err(NoResult::NotRun))
            }
            Err(TrialError::OutOfTime) => {
                self.leave_untried(vec![candidate.to_string()], best)?;
                Ok(Err(NoResult::OutOfTime))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The comparison of a whole plan that looked the best.
    pub(super) fn best_seen(&self) -> Option<&(Candidate, Timed)> {
        self.best_seen.as_ref()
    }

    /// Whether winners must pass the gate at once.
    pub(super) fn is_gated(&self) -> bool {
        self.is_gated
    }

    /// From now on winners must pass the gate at once.
    pub(super) fn gate_winners(&mut self) {
        self.is_gated = true;
    }

    /// The gate of the default plan, even if the time is over.
    pub(super) fn default_gate(&mut self) -> Result<Gate, TrialError> {
        self.cache.gate_in_any_case(&self.task.problem.default, self.gates_are_narrow)
    }

    /// The gate of a plan.
    pub(super) fn gate(&mut self, plan: &Plan) -> Result<Gate, TrialError> {
        self.cache.gate(plan, self.looks_at_decode_only(plan))
    }

    /// Whether the gate of a plan looks at decoding only.
    pub(super) fn looks_at_decode_only(&self, plan: &Plan) -> bool {
        self.gates_are_narrow && changes_only_decode(&self.task.problem.default, plan)
    }

    /// Whether a plan passes the gate; one that there is no time for does not.
    pub(super) fn passes(&mut self, plan: &Plan, candidate: &Candidate) -> Result<bool, SweepError> {
        let gate = self.gate(plan);
        self.has_passed(gate, plan, candidate)
    }

    /// Whether there is time for a gate of long prompts and full batches.
    fn has_extended_gate(&self) -> bool {
        !self.task.problem.limits.is_cpu && !self.gates_are_narrow
    }

    /// Whether a plan passes the gate of long prompts and full batches too. Where a CPU runs the kernels, or steps are
    /// slow, these take minutes, and a short search has seconds for a plan that reads prompts by the default's kernels:
    /// the plan then says how far it was checked.
    pub(super) fn passes_extended(&mut self, plan: &Plan, candidate: &Candidate) -> Result<bool, SweepError> {
        if !self.has_extended_gate() {
            return Ok(true);
        }
        let only_decode = self.is_short() && changes_only_decode(&self.task.problem.default, plan);
        let gate = self.cache.extended_gate(plan, only_decode);
        self.has_passed(gate, plan, candidate)
    }

    fn has_passed(
        &mut self,
        gate: Result<Gate, TrialError>,
        plan: &Plan,
        candidate: &Candidate,
    ) -> Result<bool, SweepError> {
        let Ok(gate) = self.reported(gate, candidate, plan)? else { return Ok(false) };
        if !gate.passed {
            self.done(SweepStep::Wrong { candidate: candidate.clone(), detail: gate.detail })?;
        }
        Ok(gate.passed)
    }

    /// Lets a candidate take the place of the best plan if it is faster twice in one of the scenarios, slower in none,
    /// and passes the gate.
    pub(super) fn challenge(
        &mut self,
        best: &mut Plan,
        plan: Plan,
        scenarios: &[Scenario],
        effort: Effort,
        candidate: Candidate,
    ) -> Result<Challenge, SweepError> {
        let pair = [&*best, &plan];
        let mut timed = Vec::new();
        for scenario in scenarios.iter().copied() {
            let has_won = timed.iter().any(|timed: &Timed| timed.verdict.replaces_incumbent());
            let compared = match self.cache.steps(pair, scenario, false, effort) {
                // The second comparison decides, on samples that did not choose; where it has won, losing is all that
                // is left to do. In a short time that of the process that confirms it is the second.
                Ok(first) if first.comparison.verdict == Verdict::Fast && !has_won && !self.is_short() => {
                    self.cache.steps(pair, scenario, true, effort)
                }
                compared => compared,
            };
            let result = match self.reported(compared, &candidate, best)? {
                Ok(result) => result,
                Err(NoResult::NotRun) => return Ok(Challenge::Lost),
                Err(NoResult::OutOfTime) => return Ok(Challenge::Open),
            };
            let verdict = if result.is_surely_slower() { Verdict::Slow } else { result.comparison.verdict };
            timed.push(Timed { scenario, result, verdict });
            if verdict == Verdict::Slow {
                // It has lost.
                break;
            }
        }
        let verdicts: Vec<Verdict> = timed.iter().map(|timed| timed.verdict).collect();
        // Most candidates lose, and need not be right.
        let ended = match wins(&verdicts) {
            true if self.is_gated && !self.passes(&plan, &candidate)? => return Ok(Challenge::Lost),
            true => Challenge::Won,
            false if verdicts.contains(&Verdict::Slow) => Challenge::Lost,
            false => Challenge::Open,
        };
        if ended == Challenge::Won {
            *best = plan;
        }
        self.decide("compared", SweepStep::Compared { candidate, timed }, best)?;
        Ok(ended)
    }

    /// Whether a few samples say that a candidate is so slow that a comparison would only say it again. Where steps
    /// take as long as on a CPU, a comparison takes no more samples.
    pub(super) fn is_screened_out(
        &mut self,
        pair: [&Plan; 2],
        scenario: Scenario,
        candidate: &Candidate,
    ) -> Result<bool, SweepError> {
        if self.task.problem.limits.is_cpu {
            return Ok(false);
        }
        let screened = self.cache.screen(pair, scenario);
        let Ok(screened) = self.reported(screened, candidate, pair[0])? else { return Ok(true) };
        if screened.has_lost() {
            let (candidate, gain) = (candidate.clone(), screened.log_ratio.exp());
            self.done(SweepStep::Screened { candidate, scenario, gain })?;
        }
        Ok(screened.has_lost())
    }

    /// What a few samples say that a candidate gains, as a log ratio; `None` if one of the plans does not run, or there
    /// is no time.
    pub(super) fn screened_gain(&mut self, pair: [&Plan; 2], scenario: Scenario) -> Result<Option<f64>, SweepError> {
        match self.cache.screen(pair, scenario) {
            Err(TrialError::Failed(_) | TrialError::OutOfTime) => Ok(None),
            screened => Ok(Some(screened?.log_ratio)),
        }
    }
}
