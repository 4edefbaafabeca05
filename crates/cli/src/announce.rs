//! Says which plan a command runs with.

use crate::progress::note;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use wgoose_session::{PlanReport, printable};

/// Prints the plan on stderr, and plans that were left out: each line once, however many sessions the command opens.
pub(crate) fn announce(report: &PlanReport) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let skipped = report.skipped.iter().map(ToString::to_string);
    for line in skipped.chain([report.to_string()]) {
        if said.insert(line.clone()) {
            note(&format!("plan: {}", printable(&line)));
        }
    }
}
