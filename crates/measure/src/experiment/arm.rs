//! An arm of a comparison: a plan of a model, with kernels.

use crate::driver::Drive;
use crate::job::PlanId;
use crate::ledger::ArmRecord;
use crate::problem::kernels_id;
use std::sync::Arc;
use wgoose_kernels::{Catalogue, Plan};
use wgoose_loader::Model;

/// One arm of an experiment.
#[derive(Clone)]
pub struct Arm {
    /// What it is called.
    pub name: String,
    /// How it computes.
    pub plan: Plan,
    /// What it computes.
    pub model: Arc<Model>,
    /// The kernels that the plan chooses among.
    pub catalogue: Arc<Catalogue>,
    /// How the plan is driven.
    pub drive: Drive,
}

impl Arm {
    /// Content id of its model, and, behind a plus sign, of kernels from beside the binary.
    pub fn model_id(&self) -> String {
        self.model.fingerprint().to_string() + &kernels_id(&self.catalogue)
    }

    /// What jobs call it in an experiment with that baseline: the hash of its plan, with that of model and kernels
    /// where they are others, and with how it is driven where that is not the engine's way.
    pub(super) fn id(&self, baseline: &Arm) -> PlanId {
        let plan = PlanId::of(&self.plan);
        let mut name = plan.to_string();
        if self.model_id() != baseline.model_id() {
            name += &format!(" {}", self.model_id());
        }
        if !self.drive.is_usual() {
            name += &format!(" {:?}", self.drive);
        }
        if name == plan.to_string() {
            return plan;
        }
        PlanId(blake3::hash(name.as_bytes()).to_hex()[..32].to_owned())
    }

    /// What the ledger says of it.
    pub(super) fn record(&self, baseline: &Arm) -> ArmRecord {
        ArmRecord {
            name: self.name.clone(),
            id: self.id(baseline),
            plan: PlanId::of(&self.plan),
            model: self.model_id(),
            file: self.model.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
            precision: self.plan.least_precise(&self.catalogue),
            persistent: self.plan.persistent.is_some(),
            drive: self.drive,
        }
    }

    /// Whether two are of one model with the same kernels, held in memory once.
    pub(super) fn shares_weights_with(&self, other: &Arm) -> bool {
        Arc::ptr_eq(&self.model, &other.model) && Arc::ptr_eq(&self.catalogue, &other.catalogue)
    }
}
