//! Which plan a session runs.

use super::{SessionBuilder, model_class};
use crate::SessionError;
use std::path::Path;
use wgoose_kernels::{DeviceFingerprint, Limits, Plan, PlanError};
use wgoose_loader::Model;
use wgoose_plans::{Chosen, Place, PlanChoice, PlanReport};
use wgoose_runtime::Device;

impl SessionBuilder {
    /// The plan that a session of that model on that device would run, and where it is from: a file's, checked; the
    /// best that is found; or the default.
    ///
    /// # Errors
    /// The file is no plan, or for another device, model or kernels. Whatever is wrong with plans that are found, the
    /// default stands in for them, and the report says so.
    pub fn plan_for(&self, device: &Device, model: &Model) -> Result<Chosen, SessionError> {
        self.plan_at(device.fingerprint(), device.limits(), model)
    }

    /// As [`SessionBuilder::plan_for`], for a device that is known but not open.
    ///
    /// # Errors
    /// As [`SessionBuilder::plan_for`].
    pub fn plan_at(&self, device: &DeviceFingerprint, limits: &Limits, model: &Model) -> Result<Chosen, SessionError> {
        let chosen = self.choose(device, limits, model)?;
        self.tell_plan(&chosen.report);
        Ok(chosen)
    }

    /// The same, without a word.
    pub(super) fn choose(
        &self,
        device: &DeviceFingerprint,
        limits: &Limits,
        model: &Model,
    ) -> Result<Chosen, SessionError> {
        let class = model_class(model);
        let place = Place { device, limits, class: &class, catalogue: &self.catalogue };
        let Chosen { plan, report } = match &self.plan {
            PlanChoice::Find => place.find(self.plan_store.as_ref()),
            PlanChoice::Default => place.default_plan(true),
            PlanChoice::File(path) => place.in_file(self.plan_in(path, &place)?, path),
        };
        let plan = Plan { state: self.state.unwrap_or(plan.state), ..plan };
        let plan = match self.precision {
            Some(precision) => plan.at_most(precision, &self.catalogue),
            None => plan,
        };
        let plan = if self.invariant { plan.batch_invariant() } else { plan };
        Ok(Chosen { plan, report })
    }

    pub(super) fn tell_plan(&self, report: &PlanReport) {
        if let Some(tell) = self.on_plan {
            tell(report);
        }
    }

    fn plan_in(&self, path: &Path, place: &Place<'_>) -> Result<Plan, SessionError> {
        let plan = Plan::load(path)?;
        let named = |error: PlanError| error.in_file(path);
        match plan.check(place.device, place.class.shape(), &self.catalogue) {
            Err(PlanError::Device { what, plan: theirs, here }) if self.foreign_plan => {
                tracing::warn!("using a plan of another device ({what}: '{theirs}', here '{here}')");
                plan.check_kernels(place.class.shape(), &self.catalogue).map_err(named)?;
            }
            other => other.map_err(named)?,
        }
        Ok(plan)
    }
}
