//! Arms that run as the baseline does, whatever they are called: an answer about them would be about noise.

use super::arm::Arm;
use super::difference::sites;
use crate::problem::kernels_id;
use crate::scenario::Scenario;
use wgoose_kernels::plan::TuningKey;
use wgoose_kernels::{KernelHash, Limits, Plan};

/// A kind of op instance, and the kernel that serves it.
type Served = (TuningKey, KernelHash);

impl Arm {
    /// Whether it runs these scenarios by the same kernels, from the same weights, in the same way as another arm.
    pub fn runs_as(&self, other: &Arm, scenarios: &[Scenario], limits: &Limits) -> bool {
        if self.id(other) == other.id(other) {
            return true;
        }
        let is_alike = self.bare_plan() == other.bare_plan()
            && self.drive == other.drive
            && self.model.fingerprint() == other.model.fingerprint()
            && self.differs_in_ops_only(other);
        // A start of a process runs more than these passes.
        let is_known = !scenarios.iter().any(|scenario| scenario.from_start);
        let served = |arm: &Arm| arm.served(scenarios, limits);
        is_alike && is_known && served(self).is_some_and(|own| served(other) == Some(own))
    }

    /// Hash of the plan without the kernels that it has chosen.
    fn bare_plan(&self) -> String {
        Plan { choices: Vec::new(), ..self.plan.clone() }.hash()
    }

    /// Whether all kernel files in which the two may differ are variants of ops: others serve between passes, too.
    fn differs_in_ops_only(&self, other: &Arm) -> bool {
        let is_of_op = |arm: &Arm| arm.catalogue.differing().iter().all(|file| file.path.starts_with("ops/"));
        kernels_id(&self.catalogue) == kernels_id(&other.catalogue) || (is_of_op(self) && is_of_op(other))
    }

    /// The kernels of the passes of these scenarios; `None` if one of them cannot be made.
    fn served(&self, scenarios: &[Scenario], limits: &Limits) -> Option<Vec<Served>> {
        let limits = self.plan.limits(limits);
        // What is left of a prompt behind its last whole chunk.
        let rest = |scenario: &Scenario| {
            let chunk = (self.plan.prefill_chunk / scenario.sequences.max(1)).max(1);
            Scenario { tokens: scenario.tokens % chunk, ..*scenario }
        };
        let rests = scenarios.iter().map(rest).filter(|rest| rest.tokens > 0);
        let passes: Vec<Scenario> = scenarios.iter().copied().chain(rests).collect();
        let served = sites(&self.plan, &self.model, &passes).into_iter().map(|site| {
            let chosen = self.plan.choose(&site.instance, &limits, &self.catalogue).ok()?;
            Some((site.key, chosen.2.hash))
        });
        served.collect()
    }
}
