//! Says which plan a command runs with, and which adapter.

use crate::progress::note;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use wgoose_loader::adapter::MergedAdapter;
use wgoose_session::{PlanReport, printable};

/// Prints the plan on stderr, and plans that were left out.
pub(crate) fn announce(report: &PlanReport) {
    report.skipped.iter().for_each(|skipped| say_once(&format!("plan: {skipped}")));
    say_once(&format!("plan: {report}"));
}

/// Prints on stderr what was merged into a model.
pub(crate) fn announce_adapter(merged: &MergedAdapter) {
    say_once(&format!("adapter: {}: {merged}", merged.path.display()));
}

/// Prints a line once, however many sessions the command opens.
fn say_once(line: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(line.to_owned()) {
        note(&printable(line));
    }
}
