//! Which plan a model runs with: the store's, else one that ships, else the device's default.

use crate::passes::Passes;
use crate::stale::{edited, safe_part};
use crate::{Gain, ModelClass, Origin, PlanReport, Skipped, Store, plan_name, shipped};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use wgoose_kernels::plan::Fusions;
use wgoose_kernels::{Catalogue, DeviceFingerprint, Limits, Plan};

/// Which plan is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PlanChoice {
    /// The best there is: of the store, else of the program, else the default.
    Find,
    /// The device's default.
    #[default]
    Default,
    /// The one in this file, which must be for this device, driver and model.
    File(PathBuf),
}

impl From<PathBuf> for PlanChoice {
    fn from(path: PathBuf) -> Self {
        PlanChoice::File(path)
    }
}

impl PlanChoice {
    /// As people write it: `default`, or a file; nothing is [`PlanChoice::Find`]. A file of that name is `./default`.
    pub fn named(name: Option<OsString>) -> PlanChoice {
        match name {
            None => PlanChoice::Find,
            Some(name) if name == "default" => PlanChoice::Default,
            Some(name) => PlanChoice::File(name.into()),
        }
    }

    /// The name; the other way round than [`PlanChoice::named`].
    pub fn name(&self) -> Option<OsString> {
        match self {
            PlanChoice::Find => None,
            PlanChoice::Default => Some("default".into()),
            PlanChoice::File(path) => Some(path.clone().into()),
        }
    }
}

/// A plan, and what is to be said of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The plan, ready to be run.
    pub plan: Plan,
    /// Where it is from.
    pub report: PlanReport,
}

/// Where a model is to run.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The device.
    pub device: &'a DeviceFingerprint,
    /// What it can do.
    pub limits: &'a Limits,
    /// What it is to run.
    pub class: &'a ModelClass,
    /// The kernels.
    pub catalogue: &'a Catalogue,
}

impl Place<'_> {
    /// The default plan.
    pub fn default_plan(&self, was_asked: bool) -> Chosen {
        let plan = Plan::default_for(self.device.clone(), *self.class.shape(), self.limits);
        let report = PlanReport::of(&plan, Origin::Default { was_asked }, Vec::new(), Vec::new());
        Chosen { plan, report }
    }

    /// A plan of a file that was named by hand, and was checked.
    pub fn in_file(&self, plan: Plan, path: &Path) -> Chosen {
        let report = PlanReport::of(&plan, Origin::File(path.to_owned()), edited(&plan).collect(), Vec::new());
        Chosen { plan, report }
    }

    /// The store's plan of this device and class, else one that ships for them, else the default. Of a plan that was made with
    /// another driver or other kernels, or for more than these limits, what is safe is taken, and the report says so. Whatever
    /// is wrong with a file, it is left out, and the report says why. One file of the store is read, whatever else there is.
    pub fn find(&self, store: Option<&Store>) -> Chosen {
        let mut skipped = Vec::new();
        let found = store.and_then(|store| self.in_store(store, &mut skipped)).or_else(|| self.shipped(&mut skipped));
        let mut chosen = match found {
            Some((plan, origin)) => self.refreshed(plan, origin),
            None => self.default_plan(false),
        };
        chosen.report.skipped = skipped;
        chosen
    }

    /// The plan that models run with today, as [`Place::find`] finds it; `None` where that is the device's default.
    pub fn in_use(&self, store: Option<&Store>) -> Option<Chosen> {
        Some(self.find(store)).filter(|chosen| !matches!(chosen.report.origin, Origin::Default { .. }))
    }

    fn in_store(&self, store: &Store, skipped: &mut Vec<Skipped>) -> Option<(Plan, Origin)> {
        let name = plan_name(self.device, self.class);
        let read = store.entry(&name).and_then(|entry| match entry {
            None => Ok(None),
            Some(entry) => Ok(Some((entry.plan?, entry.tuned))),
        });
        let why = match read {
            Ok(None) => return None,
            Ok(Some((plan, _))) if !self.fits(&plan) => "it is for another device or model".to_owned(),
            Ok(Some((plan, tuned))) => return Some((plan, Origin::Store { name, tuned })),
            Err(error) => error.to_string().replace('\n', " "),
        };
        skipped.push(Skipped { name, why });
        None
    }

    fn shipped(&self, skipped: &mut Vec<Skipped>) -> Option<(Plan, Origin)> {
        for candidate in shipped().filter(|s| s.may_be_for(self.device, self.class.shape())) {
            let name = candidate.name.to_owned();
            match candidate.plan() {
                Ok(plan) if self.fits(&plan) => return Some((plan, Origin::Shipped { name })),
                Ok(_) => {}
                Err(error) => skipped.push(Skipped { name, why: error.to_string() }),
            }
        }
        None
    }

    /// Whether a plan is for this GPU and this shape, and the passes have op instances for every choice of it.
    pub fn fits(&self, plan: &Plan) -> bool {
        let is_for_here = plan.device.is_same_gpu(self.device) && plan.model == *self.class.shape();
        is_for_here && Passes::new(self.class, plan).is_some_and(|passes| passes.have_all_choices())
    }

    fn refreshed(&self, mut plan: Plan, origin: Origin) -> Chosen {
        // What was the default then: today's may be better.
        if Gain::of(&plan) == Gain::Nothing {
            let default = Plan::default_for(plan.device, *self.class.shape(), self.limits);
            plan = Plan { evidence: plan.evidence, ..default };
        }
        let (plan, stale) = safe_part(plan, self.device, self.limits, self.class, self.catalogue);
        let report = PlanReport::of(&plan, origin, stale, Vec::new());
        Chosen { plan, report }
    }
}

/// Fusions of the plans that [`Place::find`] may choose, as far as the class tells: what can be made of them is made while the
/// device opens, each once. The plan of another device may be among them.
pub fn likely_fusions(store: Option<&Store>, class: &ModelClass) -> Vec<Fusions> {
    let class = class.name();
    let names = store.and_then(|store| store.names().ok()).unwrap_or_default();
    let of_class = names.iter().filter(|name| name.contains(&format!("-{class}-")));
    let entries = of_class.filter_map(|name| store?.entry(name).ok()?);
    if let Some(Ok(newest)) = entries.max_by_key(|entry| entry.tuned).map(|entry| entry.plan) {
        return vec![newest.fusions];
    }
    let ships = shipped().filter(|s| s.name.ends_with(&format!("-{class}"))).filter_map(|s| s.plan().ok());
    let mut likely = vec![Plan::default_fusions(true)];
    for plan in ships {
        if !likely.contains(&plan.fusions) {
            likely.push(plan.fusions);
        }
    }
    likely
}
