//! The records of a ledger in memory, by order and by key.

use super::record::{Outcome, Record, SessionRecord, Trial};
use std::collections::{HashMap, HashSet};

/// A record that is on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Content hash of the written record, 32 hex digits: what a plan names as its evidence.
    pub id: String,
    /// Content hash of its identity ([`super::Identity::key`]), if it is a trial.
    pub key: Option<String>,
    /// The record.
    pub record: Record,
}

impl Entry {
    pub(super) fn new(id: String, record: Record) -> Self {
        let key = record.trial().map(|trial| trial.identity.key());
        Self { id, key, record }
    }
}

/// Records in the order in which they were written.
#[derive(Clone, Debug, Default)]
pub struct Records {
    entries: Vec<Entry>,
    by_key: HashMap<String, Vec<usize>>,
}

impl Records {
    pub(super) fn push(&mut self, entry: Entry) -> &Entry {
        let at = self.entries.len();
        if let Some(key) = &entry.key {
            self.by_key.entry(key.clone()).or_default().push(at);
        }
        self.entries.push(entry);
        &self.entries[at]
    }

    /// All records, oldest first.
    pub fn as_slice(&self) -> &[Entry] {
        &self.entries
    }

    /// All records of several ledgers; a record that is in more than one counts once.
    pub fn merged(ledgers: impl IntoIterator<Item = Records>) -> Records {
        let (mut merged, mut seen) = (Records::default(), HashSet::new());
        for entry in ledgers.into_iter().flat_map(|ledger| ledger.entries) {
            if seen.insert(entry.id.clone()) {
                merged.push(entry);
            }
        }
        merged
    }

    /// All trials of one identity, oldest first.
    pub fn find(&self, key: &str) -> impl Iterator<Item = &Trial> {
        self.by_key.get(key).into_iter().flatten().filter_map(|&at| self.entries[at].record.trial())
    }

    /// The sweep that began last.
    pub fn newest_session(&self) -> Option<&SessionRecord> {
        let sessions = self.entries.iter().filter_map(|entry| match &entry.record {
            Record::Session(session) => Some((session, &entry.id)),
            _ => None,
        });
        sessions.max_by(|(a, i), (b, j)| a.at.total_cmp(&b.at).then(i.cmp(j))).map(|(session, _)| session)
    }

    /// All trials, oldest first, with the ids of their records.
    pub fn trials(&self) -> impl Iterator<Item = (&str, &Trial)> {
        self.entries.iter().filter_map(|entry| Some((entry.id.as_str(), entry.record.trial()?)))
    }

    /// Intents that are the last word on their key: tries that took the process, or the machine, with them.
    pub fn interrupted(&self) -> impl Iterator<Item = &Trial> {
        let last = |ats: &Vec<usize>| ats.last().and_then(|&at| self.entries[at].record.trial());
        self.by_key.values().filter_map(last).filter(|trial| trial.outcome == Outcome::Intent)
    }
}
