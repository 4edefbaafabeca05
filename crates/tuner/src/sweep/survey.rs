//! The whole space of decoding: every kernel that any form of a step could run, timed alone.

use super::error::SweepError;
use super::event::{Event, Listener, Stage, SweepStep, tell};
use super::options::SweepOptions;
use super::task::Task;
use crate::kernel_tuning::KernelTuner;
use std::cmp::Reverse;
use wgoose_measure::problem::Problem;
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::space::{InstanceGroup, configurations};

/// Times every kernel of the `part`th of `of` shares of all kinds of op instances; how many.
///
/// # Errors
/// The ledger or the runner fails, or the listener breaks.
pub fn time_all(
    problem: &Problem,
    options: &SweepOptions,
    mut cache: ResultCache<'_>,
    (part, of): (usize, usize),
    listen: Listener<'_>,
) -> Result<usize, SweepError> {
    let task = Task { problem, options };
    cache.heed(options.cancel.clone());
    cache.begin(task.session(cache.start()))?;
    let scope = task.scope();
    let tuner = KernelTuner::new(&problem.limits, &options.catalogue, scope);
    let size = |site: &InstanceGroup| {
        let (all, _) = configurations(site, &problem.limits, scope, &options.catalogue);
        all.iter().filter(|c| c.refusal.is_none()).count()
    };
    let mut sites: Vec<(usize, InstanceGroup)> =
        problem.decode_sites().into_iter().map(|site| (size(&site), site)).collect();
    sites.sort_by_key(|(size, _)| Reverse(*size));
    let own: Vec<InstanceGroup> = sites.into_iter().skip(part - 1).step_by(of).map(|(_, site)| site).collect();
    tell(listen, Event::Stage { stage: Stage::Costs, steps: own.len() })?;
    let mut all = 0;
    for site in own {
        let (tried, ns) = tuner.time_all(&site, &mut cache)?;
        all += tried;
        let Some(ns) = ns else { continue };
        tell(listen, Event::Done(SweepStep::cost(&site, ns)))?;
    }
    Ok(all)
}
