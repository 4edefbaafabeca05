//! The plans in the binary: `plans/ADAPTER/MODEL.ron` of the repository, by the names `ADAPTER-MODEL`.

use crate::name::slug;
use std::path::Path;
use wgoose_graph::ModelShape;
use wgoose_kernels::{DeviceFingerprint, Plan, PlanError};

/// A plan in the binary.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Its name: adapter, layers, width and formats.
    pub name: &'static str,
    /// RON.
    pub text: &'static str,
}

/// All of them, by name.
pub fn shipped() -> impl Iterator<Item = Shipped> {
    ALL.iter().map(|(name, text)| Shipped { name, text })
}

/// Those for devices of a maker, by the id that it has as a vendor: whatever their models, their kernels may be fast on its other
/// devices.
pub fn of_maker(vendor: u32) -> Vec<Plan> {
    let plans = shipped().filter_map(|shipped| shipped.plan().ok());
    plans.filter(|plan| plan.device.vendor == vendor).collect()
}

static ALL: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

impl Shipped {
    /// The plan.
    ///
    /// # Errors
    /// It is of another schema: it was not tuned again for this version.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        Plan::parse(self.text, Path::new(self.name))
    }

    /// Whether its name says that it may be for such models there: others need not be read.
    pub(crate) fn may_be_for(&self, device: &DeviceFingerprint, shape: &ModelShape) -> bool {
        self.name.starts_with(&format!("{}-{}x{}-", slug(&device.adapter), shape.layers, shape.width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_plans_are_named_by_device_and_model() {
        assert!(shipped().count() > 0);
        for shipped in shipped() {
            let plan = shipped.plan().unwrap();
            assert!(shipped.may_be_for(&plan.device, &plan.model), "{}", shipped.name);
        }
        assert!(shipped().all(|s| !s.name.contains("hand")), "plans made by hand are for comparison");
    }
}
