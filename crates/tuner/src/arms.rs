//! Kernels for each arm of an experiment: an arm with another structure must not lose for want of kernels that suit it.

use crate::kernel_tuning::{KernelTuner, KernelTuningError};
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_kernels::Precision;
use wgoose_kernels::plan::TuningKey;
use wgoose_measure::experiment::{Arm, ExperimentError, sites};
use wgoose_measure::ledger::Ledger;
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::runner::{KernelRunner, SWEEP_SEED};
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::{InstanceGroup, Scope};
use wgoose_runtime::CancelToken;
use wgoose_runtime::Device;

/// A kind of op instance of some arms, with the arithmetic that they allow.
struct Open {
    precision: Precision,
    site: InstanceGroup,
}

impl From<KernelTuningError> for ExperimentError {
    fn from(error: KernelTuningError) -> Self {
        match error {
            KernelTuningError::Trial(error) => ExperimentError::Trial(error),
            KernelTuningError::Plan(error) => ExperimentError::Plan(error),
        }
    }
}

/// Gives arms, which have the same catalogue, the fastest kernels that are found alone for their op instances until the
/// budget is spent, by the jobs of a sweep; kernels that an arm names stay. Arms that have an op instance in common,
/// and allow the same arithmetic, have the same kernel for it. `tell` is told what is tuned, and how many of how many
/// are done.
///
/// # Errors
/// The ledger or the device fails, or the user interrupts.
#[allow(clippy::result_large_err)] // there is one for a whole experiment
pub fn tune_arms(
    device: &Arc<Device>,
    arms: &mut [Arm],
    scenarios: &[Scenario],
    (ledger, budget, cancel): (Ledger, Duration, CancelToken),
    tell: &mut dyn FnMut(&TuningKey, usize, usize),
) -> Result<(), ExperimentError> {
    let open = open(arms, scenarios);
    let (Some(first), Some(arm)) = (open.first(), arms.first()) else { return Ok(()) };
    let catalogue = Arc::clone(&arm.catalogue);
    let mut runner = KernelRunner::new(device, &catalogue, &first.site, (Instant::now(), SWEEP_SEED))?;
    let mut cache = ResultCache::new(ledger, device.fingerprint().clone(), None, &mut runner);
    cache.heed(cancel);
    let total = open.iter().map(|open| open.site.bytes()).sum::<u64>().max(1) as f64;
    let mut claimed = 0;
    for (done, Open { precision, site }) in open.iter().enumerate() {
        tell(&site.key, done, open.len());
        claimed += site.bytes();
        let tuner = KernelTuner::new(device.limits(), &catalogue, Scope { allowed: *precision, exhaustive: false });
        // One that needs less than its share leaves the rest to those after it.
        let Some(winner) = tuner.tune(site, &mut cache, budget.mul_f64(claimed as f64 / total))?.winner else {
            continue;
        };
        for arm in arms.iter_mut().filter(|arm| arm.plan.precision == *precision) {
            let mut own = sites(&arm.plan, &arm.model, scenarios).into_iter();
            if is_open(arm, &site.key) && own.any(|other| other.key == site.key) {
                arm.plan.adopt(winner.clone());
            }
        }
    }
    Ok(())
}

/// The op instances for which arms name no kernel, each once, what reads and writes the most first.
fn open(arms: &[Arm], scenarios: &[Scenario]) -> Vec<Open> {
    let mut all: Vec<Open> = Vec::new();
    for arm in arms {
        let precision = arm.plan.precision;
        for site in sites(&arm.plan, &arm.model, scenarios) {
            let is_known = all.iter().any(|open| open.precision == precision && open.site.key == site.key);
            if !is_known && is_open(arm, &site.key) {
                all.push(Open { precision, site });
            }
        }
    }
    all.sort_by_key(|open| Reverse(open.site.bytes()));
    all
}

/// Whether an arm names no kernel for such op instances.
fn is_open(arm: &Arm, key: &TuningKey) -> bool {
    arm.plan.choices.iter().all(|choice| choice.key != *key)
}
