//! What an op instance takes without a plan.

use super::{PlanError, TuningKey};
use crate::{Catalogue, Config, Instance, Kernel, KernelError, Limits, Precision, Variant};

/// The kernel that an instance takes without a plan: of the variants with a place among the defaults the first, and of it the
/// configuration nearest to its default, that is at least as precise as `precision` and neither refused nor pruned.
///
/// # Errors
/// Every variant is refused, each with its reason; or a file is wrong: no other variant stands in for it.
pub fn default_kernel<'c>(
    instance: &Instance,
    precision: Precision,
    limits: &Limits,
    catalogue: &'c Catalogue,
) -> Result<(&'c Variant, Config, Kernel), PlanError> {
    let op = instance.op.name();
    let mut refusals = Vec::new();
    for variant in catalogue.variants(op).iter().filter(|v| v.default_place(op).is_some()) {
        let mut reason = None;
        for config in variant.configs().into_iter().filter(|c| variant.precision(c) <= precision) {
            let made = variant.admits(instance, &config, limits);
            match made.and_then(|()| Kernel::new(variant, instance, &config, limits)) {
                Ok(kernel) => return Ok((variant, config, kernel)),
                Err(KernelError::Refused(refusal)) => reason = reason.or(Some(refusal)),
                Err(KernelError::Text(error)) => return Err(error.into()),
            }
        }
        refusals.extend(reason.map(|r| format!("{}: {r}", variant.name())));
    }
    Err(PlanError::NoKernel { op, key: TuningKey::of(instance).to_string(), refusals: refusals.join("; ") })
}
