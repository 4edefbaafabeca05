//! Changes since a plan was made, and the part of the plan that is still valid.

use crate::ModelClass;
use crate::passes::Passes;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::fmt;
use wgoose_kernels::persistent::NEEDS;
use wgoose_kernels::plan::{TuningKey, bindable_fusions};
use wgoose_kernels::{Catalogue, DeviceFingerprint, Feature, HandOver, Limits, Plan, PlanError};

/// Something that has changed since a plan was made on the same GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stale {
    /// Its evidence is not of this content, or does not say of which: it is left out, all choices stay.
    Edited,
    /// The driver: all choices stay, for their kernels are right on any, but nothing says that they are still the fastest.
    Driver {
        /// Name and version in the plan.
        was: String,
        /// Name and version here.
        now: String,
    },
    /// The version of wgpu; all choices stay.
    Wgpu {
        /// In the plan.
        was: String,
        /// Of this program.
        now: String,
    },
    /// Kernels whose files are not those that were measured, or are gone: defaults take their places.
    Kernels {
        /// How many choices are left out.
        changed: usize,
        /// Of how many.
        of: usize,
    },
    /// Kernels or fusions that the device cannot run any more with this driver: defaults take their places.
    Refused {
        /// How many are left out.
        count: usize,
    },
    /// Choices that need more than the limits with which the device was opened, such as those of every WebGPU device: defaults
    /// take their places.
    BeyondLimits {
        /// How many are left out.
        count: usize,
    },
}

impl Stale {
    /// Whether another search would find a plan of which it is not true. Lower limits are no change of the device: a plan is
    /// tuned for all that it has.
    pub(crate) fn is_refreshed_by_tuning(&self) -> bool {
        !matches!(self, Stale::BeyondLimits { .. })
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stale::Edited => f.write_str("its evidence is not of this content and is left out"),
            Stale::Driver { was, now } => write!(f, "made with driver '{was}', here it is '{now}'"),
            Stale::Wgpu { was, now } => write!(f, "made with wgpu {was}, this is {now}"),
            Stale::Kernels { changed, of } => write!(f, "{changed} of its {of} kernels changed since"),
            Stale::Refused { count } => write!(f, "the device now refuses {count} of its kernels and fusions"),
            Stale::BeyondLimits { count } => {
                write!(f, "{count} of its choices left out, for they need more than these limits")
            }
        }
    }
}

/// What has changed since a plan was made on the GPU that `here` is, with other versions perhaps, as far as no kernel must be
/// made to see it.
pub fn changes_since(plan: &Plan, here: &DeviceFingerprint, catalogue: &Catalogue) -> Vec<Stale> {
    let mut stale: Vec<Stale> = edited(plan).collect();
    stale.extend(other_versions(plan, here));
    stale.extend(changed_kernels(plan, catalogue).map(|changed| Stale::Kernels { changed, of: plan.choices.len() }));
    stale
}

/// Whether a plan was edited since it was measured.
pub(crate) fn edited(plan: &Plan) -> impl Iterator<Item = Stale> + use<> {
    plan.lost_evidence.then_some(Stale::Edited).into_iter()
}

/// The part of a plan that is safe here, and what has changed. The plan must be for this GPU and fit the class.
pub(crate) fn safe_part(
    plan: Plan,
    here: &DeviceFingerprint,
    limits: &Limits,
    class: &ModelClass,
    catalogue: &Catalogue,
) -> (Plan, Vec<Stale>) {
    let stale = changes_since(&plan, here, catalogue);
    // Lower limits leave no optional feature, and a plan is filed for a device whatever its limits.
    let may_be_lowered = limits.features.is_empty();
    if stale.is_empty() && !may_be_lowered {
        return (plan, stale);
    }
    let is_other_driver = stale.iter().any(|s| matches!(s, Stale::Driver { .. } | Stale::Wgpu { .. }));
    let mut plan = Plan { device: here.clone(), ..plan };
    plan.choices.retain(|choice| choice.check(catalogue).is_ok());
    let is_checked = is_other_driver || may_be_lowered;
    let count = if is_checked { drop_refused(&mut plan, limits, class, catalogue) } else { 0 };
    let refused = if is_other_driver { Stale::Refused { count } } else { Stale::BeyondLimits { count } };
    (plan, stale.into_iter().chain((count > 0).then_some(refused)).collect())
}

fn other_versions(plan: &Plan, here: &DeviceFingerprint) -> Vec<Stale> {
    let (was, now) = (&plan.device, here);
    let driver = Stale::Driver { was: was.driver.clone(), now: now.driver.clone() };
    let wgpu = Stale::Wgpu { was: was.wgpu.clone(), now: now.wgpu.clone() };
    let differ = [(was.driver != now.driver, driver), (was.wgpu != now.wgpu, wgpu)];
    differ.into_iter().filter_map(|(differs, stale)| differs.then_some(stale)).collect()
}

fn changed_kernels(plan: &Plan, catalogue: &Catalogue) -> Option<usize> {
    let changed = plan.choices.iter().filter(|choice| choice.check(catalogue).is_err()).count();
    (changed > 0).then_some(changed)
}

/// Leaves out what a device with these limits cannot run: a driver may have lost features. Returns how many choices, fusions and
/// others those are.
fn drop_refused(plan: &mut Plan, limits: &Limits, class: &ModelClass, catalogue: &Catalogue) -> usize {
    let bindable = bindable_fusions(class.shape(), limits);
    let mut dropped = 0;
    for set in [&mut plan.fusions.decode, &mut plan.fusions.batched, &mut plan.fusions.prefill] {
        let before = set.len();
        set.retain(|fusion| bindable.contains(fusion));
        dropped += before - set.len();
    }
    let lacks = |feature: &Feature| !limits.features.contains(feature);
    dropped += usize::from(plan.persistent.take_if(|_| NEEDS.iter().any(lacks)).is_some());
    if plan.persistent.is_none() {
        plan.hand_over = HandOver::Barrier;
    }
    let Some(passes) = Passes::new(class, plan) else { return dropped };
    let rows: BTreeSet<u32> = plan.choices.iter().map(|choice| choice.key.up_to_rows).collect();
    let named: BTreeSet<&TuningKey> = plan.choices.iter().map(|choice| &choice.key).collect();
    let instances = rows.iter().flat_map(|rows| passes.instances(*rows));
    let instances: Vec<_> = instances.filter(|instance| named.contains(&TuningKey::of(instance))).collect();
    let limits = plan.limits(limits);
    // Each kernel takes a millisecond to make.
    let refused: BTreeSet<TuningKey> = instances
        .par_iter()
        .filter(|i| matches!(plan.choose(i, &limits, catalogue), Err(PlanError::Refused { .. })))
        .map(TuningKey::of)
        .collect();
    let chunk = passes.largest_chunk(plan.prefill_chunk, limits.storage_binding.min(limits.buffer));
    dropped += usize::from(chunk < plan.prefill_chunk);
    plan.prefill_chunk = chunk;
    plan.choices.retain(|choice| !refused.contains(&choice.key));
    dropped + refused.len()
}
