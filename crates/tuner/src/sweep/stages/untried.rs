//! Kernel files that the user brought along and that no trial had: each is named at the end, with the reason.

use crate::sweep::task::Task;
use crate::sweep::trials::Trials;
use crate::sweep::{Note, Part, SweepError};
use std::collections::BTreeSet;
use std::sync::Arc;
use wgoose_kernels::{Plan, Variant, ops};
use wgoose_measure::ledger::UNTRIED;
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::space::{InstanceGroup, configurations};

/// Says which kernel files that differ from the program's were never tried, and why.
pub(in crate::sweep) fn report_never_tried(trials: &mut Trials<'_>, plan: &Plan) -> Result<(), SweepError> {
    for (file, reason) in never_tried(trials.task(), trials.results(), plan) {
        trials.jobs().decide(UNTRIED, format!("{file} was never tried: {reason}"), plan)?;
        trials.note(Note::NeverTried { file, reason })?;
    }
    Ok(())
}

/// The files of ops that were never tried, each with the reason.
fn never_tried(task: Task<'_>, results: &ResultCache<'_>, plan: &Plan) -> Vec<(String, String)> {
    let catalogue = &task.options.catalogue;
    let passes = task.timed_passes(plan);
    let groups: Vec<&InstanceGroup> = passes.iter().flat_map(|(_, groups)| groups).collect();
    let mut untried = Vec::new();
    let mut seen = BTreeSet::new();
    for op in ops::ALL {
        for variant in catalogue.variants(op.name).iter().filter(|variant| catalogue.is_brought(variant)) {
            let serves: Vec<&str> =
                ops::ALL.iter().filter(|other| other.folder == op.folder).map(|other| other.name).collect();
            if seen.insert(Arc::clone(variant.path())) && !serves.iter().any(|op| results.has_tried(op, variant.name()))
            {
                let own: Vec<&InstanceGroup> =
                    groups.iter().copied().filter(|group| serves.contains(&group.key.op.as_str())).collect();
                untried.push((format!("{}.wgsl", variant.path()), why_untried(task, results, variant, &own)));
            }
        }
    }
    untried.extend(catalogue.broken().iter().map(|error| (format!("{}.wgsl", error.path), error.to_string())));
    untried
}

/// Why a variant was not tried at the op instances that it could serve.
fn why_untried(task: Task<'_>, results: &ResultCache<'_>, variant: &Variant, groups: &[&InstanceGroup]) -> String {
    if groups.is_empty() {
        return "no pass of the plan has its op".to_owned();
    }
    if !task.decides(Part::Kernels) {
        return "kernels were not tuned".to_owned();
    }
    let Task { problem, options } = task;
    let mut refusal = None;
    for group in groups {
        let (all, broken) = configurations(group, &problem.limits, task.scope(), &options.catalogue);
        if let Some((_, error)) = broken.iter().find(|(other, _)| other.path() == variant.path()) {
            return error.to_string();
        }
        let mut wrong = options.catalogue.edited_wrongly(&group.instance, &problem.limits);
        if let Some((_, error)) = wrong.find(|(other, _)| other.path() == variant.path()) {
            return error.to_string();
        }
        let mut own = all.iter().filter(|c| c.variant.path() == variant.path());
        match own.clone().all(|c| c.refusal.is_some()) {
            true => refusal = refusal.or(own.find_map(|c| c.refusal.as_ref().map(ToString::to_string))),
            false if results.spent() >= task.budget() => return "the time was over".to_owned(),
            false => return "no search came to its op in the time that it had".to_owned(),
        }
    }
    refusal.unwrap_or_else(|| "it has no configurations".to_owned())
}
