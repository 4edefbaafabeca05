//! Faults in the files of a folder: they cost the variants that need the files, and are reported first.

use crate::sweep::trials::Trials;
use crate::sweep::{Note, SweepError};
use std::collections::BTreeSet;
use std::sync::Arc;
use wgoose_kernels::plan::Fusions;
use wgoose_measure::ledger::{Cause, Reason};
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::{Occurrence, occurrences};

/// Records the files that give no variant, and those of the folder whose kernels do not compile, and says so.
pub(in crate::sweep) fn report_broken(trials: &mut Trials<'_>) -> Result<(), SweepError> {
    for error in trials.options().catalogue.broken() {
        let reason = Reason { cause: Cause::Compile, text: error.to_string() };
        trials.jobs().refuse(None, &error.path, [0, 0], reason)?;
        trials.note(Note::BrokenFile(error.clone()))?;
    }
    let (problem, catalogue) = (trials.problem(), &trials.options().catalogue);
    let plan = &problem.default;
    let formats = problem.formats_on_gpu(plan);
    let Fusions { decode, batched: _, prefill } = &plan.fusions;
    let passes = [(Scenario::DECODE, decode), (Scenario::prefill(plan.prefill_chunk), prefill)];
    let mut said = BTreeSet::new();
    // Also of ops that the default plan fuses away: a file that is wrong is named whatever the plan has.
    for (op, (scenario, fusions)) in trials.task().brought().iter().flat_map(|op| passes.map(|pass| (op, pass))) {
        for Occurrence { group, .. } in occurrences(op, &problem.shape, scenario, fusions, &formats) {
            for (variant, error) in catalogue.edited_wrongly(&group.instance, &problem.limits) {
                if said.insert(Arc::clone(variant.path())) {
                    let reason = Reason { cause: Cause::Compile, text: error.to_string() };
                    trials.jobs().refuse(Some(&group), variant.name(), [0, 0], reason)?;
                    trials.note(Note::BrokenVariant(error))?;
                }
            }
        }
    }
    Ok(())
}
