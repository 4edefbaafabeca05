//! A result cache over the ledger: a job with a stored outcome is not run again. A search sees the world through it.

mod plans;
mod replay_cursor;
mod time;

use crate::job::{Configured, Cost, Job, PlanId, Plans, SiteId};
use crate::ledger::{
    Alike, ArmRecord, Arms, Cause, Clock, Decision, Identity, ImpossibleArm, Ledger, LedgerError, Outcome, PlanRecord,
    Reason, Record, Records, Refused, SessionRecord, Trial,
};
use crate::paired::{Effort, PairedResult};
use crate::runner::{Assignment, Runner, RunnerError};
use crate::scenario::Scenario;
use crate::space::InstanceGroup;
use crate::stats::summary::median;
use crate::stats::verdict::{Comparison, Criteria, PairError, compare};
use replay_cursor::ReplayCursor;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
pub use time::late;
use wgoose_kernels::{DeviceFingerprint, Plan};
use wgoose_runtime::CancelToken;

/// A job that took the whole sweep with it that often is not tried again: a process of its own for trials leaves a
/// failure instead.
const ATTEMPTS: usize = 2;

/// Why a trial gives no result: the candidate's fault, or what stops a search.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// What was tried does not run, or is wrong.
    #[error("{0}")]
    Failed(Reason),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The runner.
    #[error(transparent)]
    Runner(#[from] RunnerError),
    /// The samples cannot be compared.
    #[error("the samples of two candidates cannot be compared: {0}")]
    Samples(#[from] PairError),
    /// The time of the search is over: it was not begun, or broken off.
    #[error("out of time")]
    OutOfTime,
    /// The outcome is of another kind than its job: the ledger was made by other means.
    #[error("a {job} job has the outcome of another kind")]
    Kind {
        /// The job's kind.
        job: &'static str,
    },
}

/// A ledger, and a runner for what is not in it.
pub struct ResultCache<'a> {
    ledger: Ledger,
    runner: &'a mut dyn Runner,
    device: DeviceFingerprint,
    model: Option<String>,
    session: Option<String>,
    plans: Plans,
    /// Jobs run now.
    pub measured: usize,
    /// Jobs whose outcomes earlier sweeps have left in the ledger.
    pub recalled: usize,
    replay_cursor: ReplayCursor,
    /// Jobs that this search has asked for, and seconds that each instance took, be it in an earlier one.
    took: Vec<(Job, f64)>,
    /// What took a process or the device with it, and is not run again, whatever it is compared with.
    quarantined: BTreeMap<Suspect, Reason>,
    cancel: CancelToken,
    /// When the time for comparisons and gates ends, if it does.
    end: Option<Duration>,
    /// What one comparison may take of it.
    share: Option<Duration>,
    /// Time that jobs waited for the reference.
    waited: Duration,
}

/// What a job tries out: the last of what it names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Suspect {
    Kernel(SiteId, Configured),
    Plan(PlanId),
}

impl Suspect {
    /// That of a job; `None` where it could be any of many.
    fn of(job: &Job) -> Option<Self> {
        match job {
            Job::Kernel { site, kernel } => Some(Suspect::Kernel(site.clone(), kernel.clone())),
            Job::Kernels { site, kernels: [_, kernel], .. } => Some(Suspect::Kernel(site.clone(), kernel.clone())),
            Job::Gate { plan, .. } | Job::ExtendedGate { plan, .. } | Job::Resident { plan } => {
                Some(Suspect::Plan(plan.clone()))
            }
            Job::Screen { plans: [_, plan], .. }
            | Job::Steps { plans: [_, plan], .. }
            | Job::Confirm { plans: [_, plan], .. } => Some(Suspect::Plan(plan.clone())),
            Job::Prepare { .. } | Job::Compile { .. } | Job::Control { .. } => None,
        }
    }
}

impl<'a> ResultCache<'a> {
    /// Continues a ledger.
    pub fn new(ledger: Ledger, device: DeviceFingerprint, model: Option<String>, runner: &'a mut dyn Runner) -> Self {
        let replay_cursor = ReplayCursor::of(ledger.records());
        let (session, plans, quarantined) = (None, Plans::new(), BTreeMap::new());
        let cancel = CancelToken::default();
        let (measured, recalled) = (0, 0);
        let mut cache = ResultCache {
            ledger,
            runner,
            device,
            model,
            session,
            plans,
            measured,
            recalled,
            replay_cursor,
            took: Vec::new(),
            quarantined,
            cancel,
            end: None,
            share: None,
            waited: Duration::ZERO,
        };
        let failed = |trial: &Trial| matches!(trial.outcome, Outcome::Failed(_));
        let trials = cache.ledger.records().trials().filter(|(_, trial)| failed(trial));
        let trials: Vec<Trial> = trials.map(|(_, trial)| trial.clone()).collect();
        trials.iter().for_each(|trial| cache.quarantine(&trial.identity, &trial.outcome));
        cache
    }

    /// From now on no job begins once this is cancelled.
    pub fn heed(&mut self, cancel: CancelToken) {
        self.cancel = cancel;
    }

    /// Remembers what must not be run again.
    fn quarantine(&mut self, identity: &Identity, outcome: &Outcome) {
        let Outcome::Failed(reason) = outcome else { return };
        let is_here = identity.device == self.device && (identity.model.is_none() || identity.model == self.model);
        let is_fatal = matches!(reason.cause, Cause::DeviceLost | Cause::Timeout | Cause::Crash | Cause::OutOfMemory);
        if is_fatal
            && is_here
            && let Some(suspect) = Suspect::of(&identity.tried)
        {
            self.quarantined.entry(suspect).or_insert_with(|| reason.clone());
        }
    }

    /// Time that was spent of the budget.
    pub fn spent(&self) -> Duration {
        self.runner.spent()
    }

    /// Whether starts of processes can be timed here, and what one takes.
    pub fn start(&self) -> Option<Duration> {
        self.runner.start()
    }

    /// Why kernels are timed by wall clock, where that is a surprise.
    pub fn doubt(&self) -> Option<String> {
        self.runner.doubt().map(str::to_owned)
    }

    /// All that is known.
    pub fn records(&self) -> &Records {
        self.ledger.records()
    }

    /// Writes down what this sweep knows at its beginning.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn begin(&mut self, session: SessionRecord) -> Result<(), LedgerError> {
        self.session = Some(self.ledger.append(Record::Session(session))?.id.clone());
        Ok(())
    }

    /// Writes down the arms of an experiment, and knows their plans by the ids that jobs have for them.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub(crate) fn enrol(
        &mut self,
        (experiment, declaration): (String, Option<String>),
        arms: Vec<(ArmRecord, &Plan)>,
        (workload, left_out): (Vec<Scenario>, Vec<ImpossibleArm>),
    ) -> Result<(), LedgerError> {
        let Some(session) = self.session.clone() else { return Ok(()) };
        for (arm, plan) in &arms {
            self.know(plan)?;
            self.plans.insert(arm.id.clone(), Plan { evidence: None, ..(*plan).clone() });
        }
        let arms = arms.into_iter().map(|(arm, _)| arm).collect();
        let arms = Arms { at: now(), session, experiment, declaration, arms, workload, left_out };
        self.ledger.append(Record::Experiment(arms)).map(drop)
    }

    /// Runs a job of plans, whether its outcome is known or not: an experiment that is run again measures again.
    ///
    /// # Errors
    /// The runner or the ledger fails.
    pub(crate) fn anew(&mut self, job: &Job, effort: Effort) -> Result<Outcome, TrialError> {
        let identity = self.identity(job);
        self.measure(&identity, job, None, effort)
    }

    /// The id of the session that began last.
    pub(crate) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Writes down a choice, and the plan that is best now.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn decide(&mut self, stage: &str, text: String, best: &Plan) -> Result<(), LedgerError> {
        let (Some(session), best) = (self.session.clone(), self.know(best)?) else { return Ok(()) };
        let decision = Decision { at: now(), session, stage: stage.to_owned(), text, best };
        self.ledger.append(Record::Decision(decision)).map(drop)
    }

    /// Writes down, once, that a plan runs a scenario as another one does.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn alike(&mut self, plan: &Plan, scenario: Scenario, as_plan: &Plan) -> Result<(), LedgerError> {
        let Some(session) = self.session.clone() else { return Ok(()) };
        let (plan, as_plan) = (self.know(plan)?, self.know(as_plan)?);
        let is_same = |record: &Record| match record {
            Record::Alike(known) => (&known.plan, known.scenario, &known.as_plan) == (&plan, scenario, &as_plan),
            _ => false,
        };
        if plan != as_plan && !self.ledger.records().as_slice().iter().any(|entry| is_same(&entry.record)) {
            self.ledger.append(Record::Alike(Alike { at: now(), session, plan, scenario, as_plan }))?;
        }
        Ok(())
    }

    /// Writes down configurations that are left out, once.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn refuse(
        &mut self,
        site: Option<&InstanceGroup>,
        variant: &str,
        [configurations, of]: [u32; 2],
        reason: Reason,
    ) -> Result<(), LedgerError> {
        let (device, variant) = (self.device.clone(), variant.to_owned());
        let refused = Refused { at: 0.0, device, site: site.map(site_id), variant, configurations, of, reason };
        let is_same = |record: &Record| match record {
            Record::Refused(known) => Refused { at: 0.0, ..known.clone() } == refused,
            _ => false,
        };
        if !self.ledger.records().as_slice().iter().any(|entry| is_same(&entry.record)) {
            self.ledger.append(Record::Refused(Refused { at: now(), ..refused }))?;
        }
        Ok(())
    }

    /// Has kernels of a site that are not known yet compiled on all cores, before they are asked for one by one. Where
    /// that once took the process with it, each is compiled alone.
    ///
    /// # Errors
    /// The runner or the ledger fails.
    pub fn compile_ahead(&mut self, site: &InstanceGroup, kernels: &[Configured]) -> Result<(), TrialError> {
        let of = |kernel: &Configured| self.identity(&Job::Kernel { site: site_id(site), kernel: kernel.clone() });
        let is_new = |kernel: &&Configured| self.recall(&of(kernel)).is_none();
        let new: Vec<Configured> = kernels.iter().filter(is_new).cloned().collect();
        let earlier = kernels.iter().filter(|kernel| self.replay_cursor.has(&of(kernel).key())).count();
        let job = Job::Compile { site: site_id(site) };
        let last = self.ledger.find(&self.identity(&job).key()).last();
        let has_died = last.is_some_and(|trial| match trial.outcome {
            Outcome::Intent => !self.runner.is_apart(),
            ref outcome => matches!(outcome, Outcome::Failed(_)),
        });
        if new.len() < 2 || has_died {
            if new.len() + earlier >= 2 {
                self.pass_over(&job, &self.identity(&job).key(), Effort::none());
            }
            return Ok(());
        }
        let identity = self.identity(&job);
        self.begin_trial(&identity)?;
        let ran = self.runner.compile_ahead(site, &new);
        self.end_trial(&identity, ran, Effort::none()).map(drop)
    }

    /// What came of a kernel at a site.
    ///
    /// # Errors
    /// The runner or the ledger fails.
    pub fn kernel(&mut self, site: &InstanceGroup, kernel: Configured) -> Result<Outcome, TrialError> {
        self.run(&Job::Kernel { site: site_id(site), kernel }, Some(site), Effort::none())
    }

    /// The kernels of a site that this search has timed, and median nanoseconds. A sweep that goes on knows no more
    /// than the one before it did.
    pub fn timed(&self, site: &InstanceGroup) -> Vec<(Configured, f64)> {
        let site = site_id(site);
        let mut timed = Vec::new();
        for (job, _) in &self.took {
            let Job::Kernel { site: of, kernel } = job else { continue };
            if *of == site {
                let outcome = self.recall(&self.identity(job));
                let ns = outcome.and_then(|outcome| median(outcome.samples_ns()));
                timed.extend(ns.map(|ns| (kernel.clone(), ns)));
            }
        }
        timed
    }

    /// Whether this search has tried a variant of an op anywhere.
    pub fn has_tried(&self, op: &str, variant: &str) -> bool {
        let is_it =
            |job: &Job| matches!(job, Job::Kernel { site, kernel } if site.key.op == op && kernel.variant == variant);
        self.took.iter().any(|(job, _)| is_it(job))
    }

    /// Compares two kernels at a site.
    ///
    /// # Errors
    /// One of them does not run; the runner or the ledger fails.
    pub fn kernels(
        &mut self,
        site: &InstanceGroup,
        kernels: [Configured; 2],
        held_out: bool,
    ) -> Result<Comparison, TrialError> {
        match self.run(&Job::Kernels { site: site_id(site), kernels, held_out }, Some(site), Effort::none())? {
            Outcome::Pair { samples_ns: [a, b], .. } => Ok(compare(&a, &b, &Criteria::kernel())?),
            Outcome::Failed(reason) => Err(TrialError::Failed(reason)),
            _ => Err(TrialError::Kind { job: "kernels" }),
        }
    }

    /// Times the control kernel anew.
    ///
    /// # Errors
    /// The runner or the ledger fails.
    pub fn control(&mut self, site: &InstanceGroup, kernel: Configured) -> Result<Vec<f64>, TrialError> {
        let job = Job::Control { site: site_id(site), kernel };
        let identity = self.identity(&job);
        let outcome = self.measure(&identity, &job, Some(site), Effort::none())?;
        Ok(outcome.samples_ns().to_vec())
    }

    /// A plan's id, its contents in the ledger.
    fn know(&mut self, plan: &Plan) -> Result<PlanId, LedgerError> {
        let id = PlanId::of(plan);
        if !self.plans.contains_key(&id) {
            let plan = Plan { evidence: None, ..plan.clone() };
            let is_same = |record: &Record| matches!(record, Record::Plan(known) if *known.plan == plan);
            if !self.ledger.records().as_slice().iter().any(|entry| is_same(&entry.record)) {
                self.ledger.append(Record::Plan(PlanRecord { at: now(), plan: Box::new(plan.clone()) }))?;
            }
            self.plans.insert(id.clone(), plan);
        }
        Ok(id)
    }

    fn identity(&self, job: &Job) -> Identity {
        let is_model = !job.plans().is_empty();
        // A whole step streams the model's own weights, and is timed as people see it.
        let clock = if is_model && self.runner.clock() != Clock::Simulated { Clock::Wall } else { self.runner.clock() };
        let model = self.model.clone().filter(|_| is_model);
        Identity { tried: job.clone(), device: self.device.clone(), model, clock }
    }

    /// What is known of a job, if it ended. One that failed fails by whichever clock it is timed.
    fn recall(&self, identity: &Identity) -> Option<Outcome> {
        let known = |key: &str| {
            self.ledger.find(key).map(|trial| &trial.outcome).filter(|outcome| outcome.is_known()).last().cloned()
        };
        let by = |clock: &Clock| known(&Identity { clock: *clock, ..identity.clone() }.key());
        let failed = |outcome: &Outcome| matches!(outcome, Outcome::Failed(_));
        let others = [Clock::Timestamps, Clock::Wall];
        known(&identity.key()).or_else(|| others.iter().filter_map(by).find(failed))
    }

    /// Runs a job, unless its outcome is known.
    fn run(&mut self, job: &Job, site: Option<&InstanceGroup>, effort: Effort) -> Result<Outcome, TrialError> {
        let identity = self.identity(job);
        let key = identity.key();
        if let Some(outcome) = self.recall(&identity) {
            self.recalled += usize::from(self.pass_over(job, &key, effort));
            return Ok(outcome);
        }
        if let Some(reason) = Suspect::of(job).and_then(|suspect| self.quarantined.get(&suspect)) {
            return Ok(Outcome::Failed(reason.clone()));
        }
        let ended = self.ledger.find(&key).filter(|trial| trial.outcome != Outcome::Intent).count();
        if !self.runner.is_apart() && self.ledger.find(&key).count() >= ATTEMPTS + 2 * ended {
            let outcome = Outcome::failed(Cause::Crash, format!("it ended the process {ATTEMPTS} times"));
            self.append(&identity, None, outcome.clone())?;
            return Ok(outcome);
        }
        let effort = self.in_time(job, effort)?;
        self.measure(&identity, job, site, effort)
    }

    /// Runs a job: the intent is on disk before it begins, the outcome before the next one does.
    fn measure(
        &mut self,
        identity: &Identity,
        job: &Job,
        site: Option<&InstanceGroup>,
        effort: Effort,
    ) -> Result<Outcome, TrialError> {
        self.begin_trial(identity)?;
        let ran = self.runner.run(Assignment { job, site, plans: &self.plans, effort, progress: &|_| () });
        let outcome = self.end_trial(identity, ran, effort)?;
        self.measured += 1;
        Ok(outcome)
    }

    fn begin_trial(&mut self, identity: &Identity) -> Result<(), TrialError> {
        if self.cancel.is_cancelled() {
            return Err(RunnerError::Interrupted.into());
        }
        Ok(self.append(identity, None, Outcome::Intent)?)
    }

    fn end_trial(
        &mut self,
        identity: &Identity,
        ran: Result<(Outcome, Cost), RunnerError>,
        effort: Effort,
    ) -> Result<Outcome, TrialError> {
        let (outcome, cost) = match ran {
            // What was broken off is no failure: another sweep tries it again.
            Err(RunnerError::Interrupted) => (Outcome::Interrupted, None),
            ran => ran.map(|(outcome, cost)| (outcome, Some(cost)))?,
        };
        self.append(identity, cost, outcome.clone())?;
        let waited = cost.map_or(0.0, |cost| cost.waited);
        self.waited += Duration::try_from_secs_f64(waited).unwrap_or_default();
        self.took.extend(cost.map(|cost| (identity.tried.clone(), effort.of_instance(cost))));
        if outcome == Outcome::Interrupted {
            let is_wanted = self.cancel.is_cancelled();
            return Err(if is_wanted { RunnerError::Interrupted.into() } else { TrialError::OutOfTime });
        }
        self.quarantine(identity, &outcome);
        Ok(outcome)
    }

    fn append(&mut self, identity: &Identity, cost: Option<Cost>, outcome: Outcome) -> Result<(), LedgerError> {
        let (at, session) = (now(), self.session.clone());
        let trial = Trial { at, session, identity: identity.clone(), cost, outcome };
        self.ledger.append(Record::Trial(Box::new(trial))).map(drop)
    }
}

/// A site's id.
pub fn site_id(site: &InstanceGroup) -> SiteId {
    SiteId { key: site.key.clone(), rows: site.instance.rows, segments: site.instance.segments }
}

/// Adds samples to others of the same comparison.
pub fn pool(known: &mut [Vec<f64>; 2], new: &[Vec<f64>; 2]) {
    known.iter_mut().zip(new).for_each(|(known, new)| known.extend(new));
}

/// What samples of two plans say.
///
/// # Errors
/// They cannot be compared.
pub fn paired(samples_ns: &[Vec<f64>; 2], criteria: &Criteria) -> Result<PairedResult, PairError> {
    let comparison = compare(&samples_ns[0], &samples_ns[1], criteria)?;
    let [incumbent_ns, candidate_ns] = samples_ns.each_ref().map(|s| median(s).unwrap_or(f64::NAN));
    Ok(PairedResult { comparison, incumbent_ns, candidate_ns })
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

#[cfg(test)]
mod tests;
