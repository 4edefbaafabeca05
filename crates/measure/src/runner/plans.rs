//! Whole plans on a device: held against the reference, and run over and over in the loop in which people run them.

use super::Phase;
use super::runs::{Runs, StepError};
use crate::driver::Drive;
use crate::job::PlanId;
use crate::ledger::{Gate, Outcome};
use crate::paired::Effort;
use crate::quality::{Agreement, ExtendedWorkload, PendingReference, QualityError, Reference};
use crate::scenario::Scenario;
use crate::stats::schedule::{Arm, abba};
use crate::stats::sequential::{is_decided, is_worth_more};
use crate::timer::Purpose;
use std::time::{Duration, Instant};
use wgoose_kernels::plan::Checked;
use wgoose_kernels::{Catalogue, Plan};
use wgoose_runtime::{Engine, GpuExecutor, NotPersistent, Outputs, PersistentStatus, RuntimeError, Sequence};

/// Steps of a sample where a few samples are to tell whether a plan is worth a comparison.
const SCREENED_TOKENS: u32 = 16;

/// Pairs of such samples.
const SCREENED_PAIRS: usize = 4;

/// Runs whole plans of one model.
pub(super) struct PlanLab {
    /// Holds the weights and compiled kernels that all plans share.
    root: GpuExecutor,
    /// What is right.
    reference: PendingReference,
    /// What candidates were screened against last, ready to run.
    screened: Option<(PlanId, Runs)>,
}

impl PlanLab {
    pub(super) fn new(root: GpuExecutor, reference: PendingReference) -> Self {
        PlanLab { root, reference, screened: None }
    }

    fn engine(&self, plan: &Plan, slots: usize) -> Result<Engine, RuntimeError> {
        let chunk = plan.prefill_chunk as usize;
        Ok(Engine::new(Box::new(self.root.sharing_weights(plan.clone(), slots)?), chunk))
    }

    /// A plan that is driven so, ready to run a scenario.
    pub(super) fn runs(&self, plan: &Plan, scenario: Scenario, drive: Drive) -> Result<Runs, StepError> {
        let executor = self.root.sharing_weights(plan.clone(), scenario.sequences as usize)?;
        let mut runs = Runs::new(executor, scenario, drive);
        // The first sample compiles and uploads.
        runs.sample()?;
        Ok(runs)
    }

    /// The quality gate of a plan, or of its decoding.
    pub(super) fn gate(
        &mut self,
        plan: &Plan,
        only_decode: bool,
        catalogue: &Catalogue,
        progress: &dyn Fn(Phase),
    ) -> Result<Gate, QualityError> {
        let mut engine = self.engine(plan, Reference::SLOTS)?;
        let reference = self.reference.get()?;
        // The first pass uploads what is not on the device yet.
        engine.forward(&[Sequence { slot: 0, tokens: &[0], outputs: Outputs::Last }])?;
        progress(Phase::Running);
        let class = plan.class(catalogue);
        let quality = match only_decode {
            false => reference.evaluate(&mut engine, class)?,
            true => reference.evaluate_decode(&mut engine, class)?,
        };
        let gate = gate_of(quality.own(), quality.checked, [quality.rms, quality.max], quality.to_string());
        Ok(Gate { passed: quality.passed(), ..gate })
    }

    /// The gate of a plan's long prompts and full batches, or of its decoding for longer than the reference does. The
    /// device's f32 kernels are run first where no file has what they come to.
    pub(super) fn extended_gate(
        &mut self,
        plan: &Plan,
        only_decode: bool,
        catalogue: &Catalogue,
        progress: &dyn Fn(Phase),
    ) -> Result<Gate, QualityError> {
        let mut engine = self.engine(plan, 1)?;
        let workload = ExtendedWorkload::fitting(&mut engine, only_decode);
        progress(Phase::Running);
        let quality = self.reference.extended(&engine, workload)?.evaluate(&mut engine, plan.class(catalogue))?;
        let gate = gate_of(quality.own(), quality.checked, [quality.rms, quality.max], quality.to_string());
        Ok(Gate { passed: quality.passed(), ..gate })
    }

    /// Whether the persistent kernels that a plan asks for work here, or why not.
    pub(super) fn resident(&self, plan: &Plan) -> Result<PersistentStatus, RuntimeError> {
        let mut engine = self.engine(plan, 1)?;
        // The first pass may upload weights, dispatch by dispatch.
        for _ in 0..2 {
            engine.forward(&[Sequence { slot: 0, tokens: &[0], outputs: Outputs::Last }])?;
        }
        let none = || PersistentStatus::Refused(NotPersistent::Streamed);
        Ok(engine.report().persistent.unwrap_or_else(none))
    }

    /// Compiles what decoding with plans takes, on all cores. A plan that cannot be used says so when it is asked for.
    /// What they are screened against is set up anew: one instance that lies well in memory must not judge them all.
    pub(super) fn prepare(&mut self, plans: &[&Plan]) {
        self.screened = None;
        let root = &self.root;
        std::thread::scope(|scope| {
            for plan in plans {
                scope.spawn(move || {
                    root.sharing_weights((*plan).clone(), 1).and_then(|executor| executor.compile_decoding())
                });
            }
        });
    }

    /// A few short samples of an incumbent, which stays ready for the next candidate, and of a candidate.
    pub(super) fn screen(
        &mut self,
        plans: [(&PlanId, &Plan); 2],
        scenario: Scenario,
        effort: Effort,
        raise_clocks: &mut dyn FnMut() -> Result<(), RuntimeError>,
        progress: &dyn Fn(Phase),
    ) -> Result<Outcome, StepError> {
        let end = End::of(effort);
        let [(id, incumbent), (_, candidate)] = plans;
        let is_same = |(known, runs): &(PlanId, Runs)| known == id && runs.scenario() == scenario;
        let mut incumbent = match self.screened.take().filter(is_same) {
            Some((_, runs)) => runs,
            None => self.runs(incumbent, scenario, Drive::default())?,
        };
        let candidate = self.runs(candidate, scenario, Drive::default());
        let sampled = candidate.and_then(|mut candidate| {
            progress(Phase::Running);
            raise_clocks()?;
            let steps = if scenario.tokens == 1 { SCREENED_TOKENS } else { 1 };
            let mut arms = [&mut incumbent, &mut candidate];
            let mut samples_ns = [Vec::new(), Vec::new()];
            for arm in &mut arms {
                arm.take_steps(steps, Purpose::Choice);
                arm.sample()?;
            }
            for pair in abba(SCREENED_PAIRS) {
                for arm in pair {
                    if end.is_over() {
                        return Ok(Outcome::Interrupted);
                    }
                    let i = usize::from(arm == Arm::Candidate);
                    samples_ns[i].push(arms[i].sample()?);
                }
            }
            Ok(Outcome::Pair { samples_ns, repeats: steps, copies: 0 })
        });
        self.screened = Some((id.clone(), incumbent));
        sampled
    }
}

/// When a comparison is broken off.
pub(super) struct End(Option<Instant>);

impl End {
    /// That of one that begins now.
    pub(super) fn of(effort: Effort) -> Self {
        End(effort.most.and_then(|most| Instant::now().checked_add(most)))
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_before(Duration::ZERO)
    }

    /// Whether it comes before so much time has gone by.
    pub(super) fn is_before(&self, time: Duration) -> bool {
        self.0.is_some_and(|end| end <= Instant::now() + time)
    }
}

/// Interleaved samples of two plans, each made ready by its number. Each may have several instances: where its memory
/// lies makes one half a percent faster than the next. Where these take longer than the comparison may, the pairs that
/// are left are those of the instances that there are. One that goes on for too long is interrupted.
pub(super) fn pair(
    ready: &dyn Fn(usize) -> Result<Runs, StepError>,
    (effort, purpose): (Effort, Purpose),
    raise_clocks: &mut dyn FnMut() -> Result<(), RuntimeError>,
    progress: &dyn Fn(Phase),
) -> Result<Outcome, StepError> {
    let (mut running, end, start) = (Duration::ZERO, End::of(effort), Instant::now());
    let mut ready_arms = None;
    let mut samples_ns = [Vec::new(), Vec::new()];
    let mut steps = None;
    for instance in 0..effort.instances {
        progress(Phase::Compiling);
        let is_late = effort.share.is_some_and(|share| start.elapsed() >= share);
        let mut arms = match ready_arms.take().filter(|_| is_late) {
            Some(arms) => arms,
            None => [ready(0)?, ready(1)?],
        };
        let begun = Instant::now();
        progress(Phase::Running);
        raise_clocks()?;
        let mut longest = 0.0_f64;
        for arm in &mut arms {
            let Some(ns) = arm.warm_up(purpose, &|| end.is_over())? else { return Ok(Outcome::Interrupted) };
            longest = longest.max(ns);
        }
        let steps = *steps.get_or_insert(arms[0].steps_for(longest, purpose));
        arms.iter_mut().for_each(|arm| arm.take_steps(steps, purpose));
        let left = effort.allowance.saturating_sub(running + begun.elapsed()).as_nanos() as f64;
        let instances_left = effort.instances - instance;
        let pairs = (left / (2.0 * longest * f64::from(steps)).max(1.0)) as usize / instances_left;
        let (asked, is_last, criteria) = (effort.pairs(), instances_left == 1, effort.criteria());
        let before = samples_ns[0].len();
        let mut next = pairs.clamp(*asked.start(), *asked.end());
        while next > 0 {
            for pair in abba(next) {
                let has_fewest = samples_ns[0].len() >= before + *asked.start();
                let is_spent = effort.share.is_some_and(|share| running + begun.elapsed() >= share);
                if has_fewest && is_spent {
                    break;
                }
                if is_last && is_decided(&samples_ns[0], &samples_ns[1], &criteria, effort.question) {
                    break;
                }
                for arm in pair {
                    if end.is_over() {
                        return Ok(Outcome::Interrupted);
                    }
                    let i = usize::from(arm == Arm::Candidate);
                    progress(Phase::Running);
                    samples_ns[i].push(arms[i].sample()?);
                }
            }
            let is_spent = effort.share.is_some_and(|share| running + begun.elapsed() >= share);
            let goes_on =
                is_last && !is_spent && is_worth_more(&samples_ns[0], &samples_ns[1], &criteria, effort.question);
            next = if goes_on { effort.more(samples_ns[0].len()) } else { 0 };
        }
        running += begun.elapsed();
        ready_arms = Some(arms);
    }
    Ok(Outcome::Pair { samples_ns, repeats: steps.unwrap_or(1), copies: 0 })
}

/// What the ledger says of a gate that a plan passes, with the root mean square and the largest of the errors.
fn gate_of(own: &Agreement, checked: Checked, errors: [f64; 2], detail: String) -> Gate {
    Gate {
        quality_hash: Some(own.hash.clone()),
        class: Some(own.class),
        certified: Some(own.certified),
        agreeing: Some((own.decisions - own.disagreements, own.decisions)),
        checked: Some(checked),
        ..Gate::passed(errors, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_seen_before_it_comes() {
        let second = Duration::from_secs(1);
        let end = End::of(Effort { most: Some(60 * second), ..Effort::none() });
        assert!(!end.is_over() && !end.is_before(second) && end.is_before(61 * second));
        assert!(End::of(Effort { most: Some(Duration::ZERO), ..Effort::none() }).is_over());
        assert!(!End::of(Effort::none()).is_before(Duration::from_secs(1 << 30)));
    }
}
