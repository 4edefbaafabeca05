//! What a site takes without a plan.

use super::{PlanError, SiteClass};
use crate::{Kernel, Limits, Numerics, Site, Sources, Tunables, Variant, ops};

/// The kernel that a site takes without a plan: the first variant that computes in f32, and of it the first point, that
/// is not refused. What is rounded further has to be asked for.
///
/// # Errors
/// Every variant is refused; each with its reason.
pub fn default_kernel(
    site: &Site,
    limits: &Limits,
    sources: &Sources,
) -> Result<(&'static Variant, Tunables, Kernel), PlanError> {
    let mut refusals = Vec::new();
    for variant in ops::kernels(&site.op).variants.iter().filter(|v| v.numerics() == Numerics::F32) {
        let mut reason = None;
        for point in variant.points(sources)? {
            match Kernel::new(variant, site, &point, limits, sources) {
                Ok(kernel) => return Ok((variant, point, kernel)),
                Err(refusal) => reason = reason.or(Some(refusal)),
            }
        }
        refusals.extend(reason.map(|r| format!("{}: {r}", variant.name)));
    }
    let (op, site) = (site.op.name(), SiteClass::of(site).to_string());
    Err(PlanError::NoKernel { op, site, refusals: refusals.join("; ") })
}
