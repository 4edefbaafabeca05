//! A memo over the ledger: an experiment whose result is in it is not run again.

use crate::ledger::{Cause, Clock, Identity, Ledger, LedgerError, Outcome, Policy, Record, Subject};
use std::time::{SystemTime, UNIX_EPOCH};
use wgoose_kernels::DeviceFingerprint;
use wgoose_runtime::lab::ClockSource;

/// An experiment that took the process with it that often is not tried again.
const ATTEMPTS: usize = 2;

/// A ledger with what is the same for every record of a sweep.
pub struct Memo {
    ledger: Ledger,
    device: DeviceFingerprint,
    /// Experiments measured now.
    pub(crate) measured: usize,
    /// Experiments of earlier sweeps whose results were in the ledger.
    pub(crate) recalled: usize,
    /// Records that were there at the start.
    earlier: usize,
}

impl Memo {
    /// Continues a ledger.
    pub fn new(ledger: Ledger, device: DeviceFingerprint) -> Self {
        let earlier = ledger.records().as_slice().len();
        Memo { ledger, device, measured: 0, recalled: 0, earlier }
    }

    /// The identity of an experiment on this device.
    pub(crate) fn identity(&self, subject: Subject, model: Option<&str>, repeats: u32, clock: ClockSource) -> Identity {
        let clock = match clock {
            ClockSource::Timestamps => Clock::Timestamps,
            ClockSource::Wall => Clock::Wall,
        };
        // A whole step streams the model's own weights; a kernel alone is given copies of its weights in turn.
        let cache = if model.is_some() { "as-in-use" } else { "weights-rotated" };
        let policy = Policy { cache: cache.to_owned(), repeats, clock };
        Identity { subject, device: self.device.clone(), model: model.map(str::to_owned), policy }
    }

    /// What is known of an experiment, if it ended.
    pub(crate) fn recall(&self, key: &str) -> Option<Outcome> {
        let outcomes = self.ledger.find(key).map(|e| &e.record.outcome);
        outcomes.filter(|o| **o != Outcome::Intent).last().cloned()
    }

    /// Counts a result that an earlier sweep left.
    pub(crate) fn count_recalled(&mut self, key: &str) {
        let known = self.ledger.records().as_slice()[..self.earlier].iter().any(|e| e.key == key);
        self.recalled += usize::from(known);
    }

    /// Runs an experiment, unless its outcome is known: the intent is on disk before it begins, the outcome before the
    /// next one does. One that took the process with it twice is given up.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub(crate) fn experiment(
        &mut self,
        identity: &Identity,
        run: impl FnOnce() -> Outcome,
    ) -> Result<Outcome, LedgerError> {
        let key = identity.key();
        if let Some(outcome) = self.recall(&key) {
            self.count_recalled(&key);
            return Ok(outcome);
        }
        let outcome = if self.ledger.find(&key).count() >= ATTEMPTS {
            Outcome::failed(Cause::Timeout, format!("it ended the process {ATTEMPTS} times"))
        } else {
            self.append(identity, Outcome::Intent)?;
            run()
        };
        self.measured += 1;
        self.append(identity, outcome.clone())?;
        Ok(outcome)
    }

    /// Writes one record.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub(crate) fn append(&mut self, identity: &Identity, outcome: Outcome) -> Result<(), LedgerError> {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
        self.ledger.append(Record { at, identity: identity.clone(), outcome })?;
        Ok(())
    }
}
