//! Layouts, chunk, fusions and the format of the state, by whole steps with default kernels.

use crate::sweep::trials::{Challenge, Trials};
use crate::sweep::{Candidate, Stage, SweepError};
use wgoose_graph::Format;
use wgoose_kernels::Plan;
use wgoose_measure::paired::Effort;

/// A plan's structure, decided with default kernels.
pub(in crate::sweep) struct Structure {
    /// The best plan with default kernels.
    pub(in crate::sweep) plan: Plan,
    /// Formats whose layout these left open.
    pub(in crate::sweep) open: Vec<Format>,
}

/// The changes of the default plan that win, one after the other.
pub(in crate::sweep) fn structure(trials: &mut Trials<'_>) -> Result<Structure, SweepError> {
    let mut best = trials.problem().default.clone();
    let changes = trials.task().changes(&best);
    trials.begin(Stage::Structure, changes.len())?;
    let deadline = trials.end(|ends| ends.structure);
    let comparisons: usize = changes.iter().map(|change| change.scenarios.len()).sum();
    // Most changes lose in their first comparison, and those that win have it twice.
    let effort = Effort::usual(trials.left(|ends| ends.structure) / (2 * comparisons.max(1)) as u32);
    let mut open = Vec::new();
    let mut untried = Vec::new();
    for change in changes {
        if trials.spent() >= deadline {
            untried.push(change.name);
            continue;
        }
        let mut candidate = best.clone();
        (change.apply)(&mut candidate);
        let name = Candidate::Change(change.name);
        if trials.is_screened_out([&best, &candidate], change.scenarios[0], &name)? {
            continue;
        }
        let ended = trials.challenge(&mut best, candidate, &change.scenarios, effort, name)?;
        open.extend(change.interleaves.filter(|_| ended == Challenge::Open));
    }
    trials.leave_untried(untried, &best)?;
    Ok(Structure { plan: best, open })
}

/// A structure that passes the gate: the one given, else what wins of the changes that do.
pub(in crate::sweep) fn checked(trials: &mut Trials<'_>, found: Structure) -> Result<Structure, SweepError> {
    let is_default = found.plan.hash() == trials.problem().default.hash();
    if is_default || trials.passes(&found.plan, &Candidate::Structure)? {
        return Ok(found);
    }
    // What was timed is remembered.
    structure(trials)
}
