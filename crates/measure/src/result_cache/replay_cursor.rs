//! A replay cursor over a ledger: a resumed sweep asks for the outcomes of earlier sweeps again, in the order in which
//! they were found.

use super::ResultCache;
use crate::job::Job;
use crate::ledger::Records;
use crate::paired::Effort;
use std::collections::BTreeMap;

/// How often jobs had ended when a sweep began, by their keys, less those that it has asked for.
pub(super) struct ReplayCursor(BTreeMap<String, usize>);

impl ReplayCursor {
    pub(super) fn of(records: &Records) -> Self {
        let mut times = BTreeMap::new();
        for (_, trial) in records.trials().filter(|(_, trial)| trial.outcome.is_known()) {
            *times.entry(trial.identity.key()).or_default() += 1;
        }
        ReplayCursor(times)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|times| *times > 0)
    }

    /// Takes one away, if there is one.
    fn take(&mut self, key: &str) -> bool {
        let times = self.0.get_mut(key).filter(|times| **times > 0);
        times.map(|times| *times -= 1).is_some()
    }
}

impl ResultCache<'_> {
    /// Counts a job that is not run as one that an earlier sweep has run, as often as that has; whether it has.
    pub(super) fn pass_over(&mut self, job: &Job, key: &str, effort: Effort) -> bool {
        let is_earlier = self.replay_cursor.take(key);
        if is_earlier {
            let cost = self.ledger.find(key).filter_map(|trial| trial.cost).last();
            self.took.extend(cost.map(|cost| (job.clone(), effort.of_instance(cost))));
            self.runner.pass_over(job);
        }
        is_earlier
    }
}
