//! A report of the chosen plan, in one line.

use crate::{Stale, day};
use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;
use wgoose_kernels::Plan;
use wgoose_kernels::plan::ScenarioEvidence;

/// Where the plan is from, and what is to be known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanReport {
    /// Where it is from.
    pub origin: Origin,
    /// What it gains over the default, as measured when it was tuned.
    pub gain: Gain,
    /// What has changed since it was tuned. Empty: it is current.
    pub stale: Vec<Stale>,
    /// Plans that were left out, with the reason.
    pub skipped: Vec<Skipped>,
}

/// Where a plan is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The device's default.
    Default {
        /// Whether it was asked for; else no other was found.
        was_asked: bool,
    },
    /// A file named by hand.
    File(PathBuf),
    /// The store.
    Store {
        /// Its name there.
        name: String,
        /// When it was tuned.
        tuned: SystemTime,
    },
    /// The program.
    Shipped {
        /// Its name.
        name: String,
    },
}

/// What a plan gains over the default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gain {
    /// It was not measured.
    Unknown,
    /// It is the default: nothing that was tried was faster.
    Nothing,
    /// It decodes one sequence so many times as fast.
    Decode(f64),
}

/// A plan that was found and left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its name, or its file.
    pub name: String,
    /// Why, in one line.
    pub why: String,
}

impl PlanReport {
    pub(crate) fn of(plan: &Plan, origin: Origin, stale: Vec<Stale>, skipped: Vec<Skipped>) -> PlanReport {
        PlanReport { origin, gain: Gain::of(plan), stale, skipped }
    }

    /// The plan's name in the store or in the program, or its file; `None` for the default.
    pub fn name(&self) -> Option<String> {
        match &self.origin {
            Origin::Default { .. } => None,
            Origin::File(path) => Some(path.display().to_string()),
            Origin::Store { name, .. } | Origin::Shipped { name } => Some(name.clone()),
        }
    }

    /// Whether a tuned plan was found and nothing has changed since.
    pub fn is_current(&self) -> bool {
        !matches!(self.origin, Origin::Default { .. }) && self.stale.is_empty()
    }
}

impl fmt::Display for PlanReport {
    /// One line, such as `tuned 2026-11-20 (store), 1.84 x the default in decode`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Default { was_asked: true } => f.write_str("the device's default, as asked")?,
            Origin::Default { was_asked: false } => {
                f.write_str("the device's default; wgoose tune looks for a faster one")?;
            }
            Origin::File(path) => write!(f, "{}", path.display())?,
            Origin::Store { tuned, .. } => write!(f, "tuned {} (store)", day(*tuned))?,
            Origin::Shipped { name } => write!(f, "{name} (ships with wgoose)")?,
        }
        match self.gain {
            Gain::Unknown => {}
            Gain::Nothing => f.write_str(", nothing tried was faster than the default")?,
            Gain::Decode(gain) => write!(f, ", {gain:.2} x the default in decode")?,
        }
        if !self.stale.is_empty() {
            let changes: Vec<String> = self.stale.iter().map(ToString::to_string).collect();
            let changes = changes.join(", ");
            match self.stale.iter().any(Stale::is_refreshed_by_tuning) {
                true => write!(f, "; stale: {changes}; wgoose tune refreshes it")?,
                false => write!(f, "; {changes}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is left out: {}", self.name, self.why)
    }
}

/// How many times as fast as the default a plan is in a scenario: the middle of the interval, which is of pairs. Medians are shifted where
/// a device's speed changes.
pub fn gain(scenario: &ScenarioEvidence) -> f64 {
    let (low, high) = scenario.speedup;
    (low * high).sqrt()
}

impl Gain {
    /// As the evidence of a plan says.
    pub fn of(plan: &Plan) -> Gain {
        let Some(evidence) = &plan.evidence else { return Gain::Unknown };
        let decode = evidence.scenarios.iter().find(|s| s.scenario == "decode").map(gain);
        match decode.filter(|gain| gain.is_finite()) {
            Some(gain) => Gain::Decode(gain),
            None if evidence.scenarios.is_empty() => Gain::Nothing,
            None => Gain::Unknown,
        }
    }
}
