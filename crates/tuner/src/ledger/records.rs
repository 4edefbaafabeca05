//! The records of a ledger in memory, by order and by key.

use super::record::{Outcome, Record};
use std::collections::HashMap;

/// A record that is on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Content hash of the written record, 32 hex digits: what a plan names as its evidence.
    pub id: String,
    /// Content hash of its identity ([`super::Identity::key`]).
    pub key: String,
    /// The record.
    pub record: Record,
}

impl Entry {
    pub(super) fn new(id: String, record: Record) -> Self {
        Self { id, key: record.identity.key(), record }
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
        self.by_key.entry(entry.key.clone()).or_default().push(at);
        self.entries.push(entry);
        &self.entries[at]
    }

    /// All records, oldest first.
    pub fn as_slice(&self) -> &[Entry] {
        &self.entries
    }

    /// All records of one identity, oldest first.
    pub fn find(&self, key: &str) -> impl Iterator<Item = &Entry> {
        self.by_key.get(key).into_iter().flatten().map(|&at| &self.entries[at])
    }

    /// Intents that are the last word on their key: tries that took the process, or the machine, with them.
    pub fn interrupted(&self) -> impl Iterator<Item = &Entry> {
        let is_last = |at: usize, key: &str| self.by_key.get(key).and_then(|ats| ats.last()) == Some(&at);
        self.entries
            .iter()
            .enumerate()
            .filter(move |(at, entry)| entry.record.outcome == Outcome::Intent && is_last(*at, &entry.key))
            .map(|(_, entry)| entry)
    }
}
