//! A ledger as a runner: jobs have the outcomes and the times of the ledger. A search is scored on real measurements,
//! without a device.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wgoose_measure::job::{Configured, Cost, Job};
use wgoose_measure::ledger::{Cause, Clock, Outcome, Records, Trial};
use wgoose_measure::runner::{Assignment, Runner, RunnerError};
use wgoose_measure::space::InstanceGroup;

/// Answers jobs from records.
pub struct ReplayRunner {
    /// What came of each job, in the order in which it was run.
    known: BTreeMap<Job, Vec<(Outcome, Cost)>>,
    /// How often each was asked for.
    asked: BTreeMap<Job, usize>,
    clock: Clock,
    /// What a process took to begin.
    start: Option<Duration>,
    now: f64,
    missing: BTreeSet<Job>,
}

impl ReplayRunner {
    /// A runner of the records of one device and model.
    pub fn new(records: &Records) -> Self {
        let mut known: BTreeMap<Job, Vec<(Outcome, Cost)>> = BTreeMap::new();
        let mut clock = Clock::Wall;
        let ended = |trial: &&Trial| trial.outcome.is_known();
        for (_, trial) in records.trials().filter(|(_, trial)| ended(trial)) {
            let job = &trial.identity.tried;
            if matches!(job, Job::Kernel { .. }) {
                clock = trial.identity.clock;
            }
            known.entry(job.clone()).or_default().push((trial.outcome.clone(), trial.cost.unwrap_or_default()));
        }
        let start = records
            .newest_session()
            .and_then(|session| session.start)
            .and_then(|start| Duration::try_from_secs_f64(start).ok());
        ReplayRunner { known, asked: BTreeMap::new(), clock, start, now: 0.0, missing: BTreeSet::new() }
    }

    /// Jobs that were asked for and never run. They failed.
    pub fn missing(&self) -> &BTreeSet<Job> {
        &self.missing
    }

    /// What came of a job when it was run for that time; the last time, if it was run less often.
    fn answer(&mut self, job: &Job) -> (Outcome, Cost) {
        let asked = self.asked.entry(job.clone()).or_default();
        let times = self.known.get(job).map_or(&[][..], Vec::as_slice);
        let Some((outcome, cost)) = times.get(*asked).or(times.last()).cloned() else {
            self.missing.insert(job.clone());
            return (Outcome::failed(Cause::Constraint, "it was never measured".to_owned()), Cost::default());
        };
        *asked += 1;
        self.now += cost.total();
        (outcome, cost)
    }
}

impl Runner for ReplayRunner {
    fn run(&mut self, assignment: Assignment<'_>) -> Result<(Outcome, Cost), RunnerError> {
        Ok(self.answer(assignment.job))
    }

    fn compile_ahead(&mut self, site: &InstanceGroup, _: &[Configured]) -> Result<(Outcome, Cost), RunnerError> {
        Ok(self.answer(&Job::Compile { site: wgoose_measure::result_cache::site_id(site) }))
    }

    fn spent(&self) -> Duration {
        Duration::from_secs_f64(self.now)
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    /// What ended in records ends no process.
    fn is_apart(&self) -> bool {
        true
    }

    fn start(&self) -> Option<Duration> {
        self.start
    }

    fn pass_over(&mut self, job: &Job) {
        if self.known.contains_key(job) {
            self.answer(job);
        }
    }
}
