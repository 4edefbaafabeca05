//! The kernel of an op instance without a plan.

use super::{PlanError, TuningKey};
use crate::{Catalogue, Config, Instance, Kernel, KernelError, Limits, Precision, Refusal, TextError, Variant};

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
    let mut refusals: Vec<(&str, Refusal)> = Vec::new();
    for (variant, config) in configs(catalogue.defaults(op), precision, catalogue.is_forced(op)) {
        let made = variant.admits(instance, &config, limits);
        match made.and_then(|()| Kernel::new(variant, instance, &config, limits)) {
            Ok(kernel) => return Ok((catalogue.taken(op, variant), config, kernel)),
            Err(KernelError::Refused(refusal)) if refusals.last().is_none_or(|(name, _)| *name != variant.name()) => {
                refusals.push((variant.name(), refusal));
            }
            Err(KernelError::Refused(_)) => {}
            Err(KernelError::Text(error)) => {
                catalogue.unless_in_part(error)?;
                refusals.push((variant.name(), Refusal::None("its text is wrong")));
            }
        }
    }
    if refusals.is_empty() {
        // All that there is was left out for its arithmetic: only a variant that is forced can be alone so.
        let less_precise =
            |variant: &'c Variant| (variant.name(), Refusal::None("it is less precise than the plan allows"));
        refusals.extend(catalogue.defaults(op).map(less_precise));
    }
    let refusals: Vec<String> = refusals.iter().map(|(name, refusal)| format!("{name}: {refusal}")).collect();
    Err(PlanError::NoKernel { op, key: TuningKey::of(instance).to_string(), refusals: refusals.join("; ") })
}

/// The first that is admitted, whether or not its kernel keeps to the device's limits; if `sums` are named, of those that add up
/// so.
///
/// # Errors
/// A file is wrong: no other variant stands in for it.
pub(super) fn first_admitted<'c>(
    instance: &Instance,
    precision: Precision,
    limits: &Limits,
    catalogue: &'c Catalogue,
    sums: Option<&str>,
) -> Result<Option<(&'c Variant, Config)>, TextError> {
    let adds_up = |variant: &Variant, config: &Config| sums.is_none() || variant.sums(config).as_deref() == sums;
    let op = instance.op.name();
    let variants = catalogue.defaults(op).filter(|variant| !variant.is_pruned_whole(instance, limits));
    let configs = configs(variants, precision, catalogue.is_forced(op));
    for (variant, config) in configs.filter(|(variant, config)| adds_up(variant, config)) {
        match variant.admits(instance, &config, limits) {
            Ok(()) => return Ok(Some((catalogue.taken(op, variant), config))),
            Err(KernelError::Refused(_)) => {}
            Err(KernelError::Text(error)) => catalogue.unless_in_part(error)?,
        }
    }
    Ok(None)
}

/// The configurations of variants that are tried, each variant's from its default on; those with other imports come last, for a
/// file with its imports takes milliseconds to expand.
fn configs<'c>(
    variants: impl Iterator<Item = &'c Variant>,
    precision: Precision,
    is_forced: bool,
) -> impl Iterator<Item = (&'c Variant, Config)> {
    let each = |variant: &'c Variant| {
        let mut configs = variant.configs();
        configs.sort_by_key(|config| !variant.has_default_imports(config));
        configs.into_iter().map(move |config| (variant, config))
    };
    let is_tried = move |variant: &Variant, config: &Config| {
        (is_forced || !variant.is_plan_only(config)) && variant.precision(config) <= precision
    };
    variants.flat_map(each).filter(move |(variant, config)| is_tried(variant, config))
}
