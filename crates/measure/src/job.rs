//! The jobs of a runner, as plain data: a job contains all that its outcome depends on, except the device and the
//! model.

use crate::scenario::Scenario;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use wgoose_kernels::plan::TuningKey;
use wgoose_kernels::{Plan, SpelledConfig};

/// Content hash of a plan ([`Plan::hash`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PlanId(pub String);

impl PlanId {
    /// That of a plan. Evidence is no part of it.
    pub fn of(plan: &Plan) -> Self {
        PlanId(plan.hash())
    }
}

impl fmt::Display for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A kind of op instance at a size: what kernels are timed on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteId {
    /// What a plan calls it.
    pub key: TuningKey,
    /// Rows of its y.
    pub rows: u32,
    /// Sequences of the batch.
    pub segments: u32,
}

impl fmt::Display for SiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} rows of {} sequences", self.key, self.rows, self.segments)
    }
}

/// A variant with a choice of each of its tunables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configured {
    /// The variant's name.
    pub variant: String,
    /// Its configuration.
    pub config: SpelledConfig,
    /// Hash of the WGSL that it makes at the site: an edited kernel is another one.
    pub text: String,
}

impl fmt::Display for Configured {
    /// `variant NAME=value ...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.variant)?;
        self.config.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "snake_case", deny_unknown_fields)]
pub enum Job {
    /// Make a kernel, check it against the reference, time it alone.
    Kernel {
        /// Where.
        site: SiteId,
        /// Which.
        kernel: Configured,
    },
    /// Time two kernels of a site in interleaved pairs.
    Kernels {
        /// Where.
        site: SiteId,
        /// The incumbent and the candidate.
        kernels: [Configured; 2],
        /// Whether these samples are held out: they judge what others chose.
        held_out: bool,
    },
    /// Compile kernels of a site ahead, on all cores.
    Compile {
        /// Where.
        site: SiteId,
    },
    /// Time the control kernel, which never changes.
    Control {
        /// Where.
        site: SiteId,
        /// Which.
        kernel: Configured,
    },
    /// Hold a plan's numbers against the reference.
    Gate {
        /// Which.
        plan: PlanId,
        /// Whether decoding is all that is looked at: the plan reads prompts and batches as the default does.
        #[serde(default, skip_serializing_if = "is_false")]
        only_decode: bool,
    },
    /// Hold long prompts and full batches of a plan against f32 kernels on the same device.
    ExtendedGate {
        /// Which.
        plan: PlanId,
        /// As in [`Job::Gate`].
        #[serde(default, skip_serializing_if = "is_false")]
        only_decode: bool,
    },
    /// See whether the persistent kernel that a plan asks for runs.
    Resident {
        /// Which.
        plan: PlanId,
    },
    /// Compile what decoding with plans takes, on all cores.
    Prepare {
        /// Which.
        plans: Vec<PlanId>,
    },
    /// A few short samples of two plans: whether a candidate is worth a comparison.
    Screen {
        /// The incumbent and the candidate.
        plans: [PlanId; 2],
        /// What is run.
        scenario: Scenario,
    },
    /// Time two plans in interleaved pairs, in the loop in which people run them.
    Steps {
        /// The incumbent and the candidate.
        plans: [PlanId; 2],
        /// What is run.
        scenario: Scenario,
        /// Whether these samples are held out: they judge what others chose.
        held_out: bool,
    },
    /// The same in a process that has run nothing else: what is said of a plan. Where the time is that of a start, of
    /// several.
    Confirm {
        /// The default plan and the candidate.
        plans: [PlanId; 2],
        /// What is run.
        scenario: Scenario,
        /// Which of several processes: where memory lies in one makes a plan half a percent faster than in the next.
        process: u32,
    },
}

impl Job {
    /// A word for its kind.
    pub fn name(&self) -> &'static str {
        match self {
            Job::Kernel { .. } => "kernel",
            Job::Kernels { .. } => "kernels",
            Job::Compile { .. } => "compile",
            Job::Control { .. } => "control",
            Job::Gate { .. } => "gate",
            Job::ExtendedGate { .. } => "extended gate",
            Job::Resident { .. } => "resident",
            Job::Prepare { .. } => "prepare",
            Job::Screen { .. } => "screen",
            Job::Steps { .. } => "steps",
            Job::Confirm { .. } => "confirm",
        }
    }

    /// The plans that it runs.
    pub fn plans(&self) -> &[PlanId] {
        match self {
            Job::Gate { plan, .. } | Job::ExtendedGate { plan, .. } | Job::Resident { plan } => {
                std::slice::from_ref(plan)
            }
            Job::Prepare { plans } => plans,
            Job::Screen { plans, .. } | Job::Steps { plans, .. } | Job::Confirm { plans, .. } => plans,
            Job::Kernel { .. } | Job::Kernels { .. } | Job::Compile { .. } | Job::Control { .. } => &[],
        }
    }
}

/// What a job took, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Compiling.
    pub compile: f64,
    /// Checking against the reference, and what it is checked on.
    pub check: f64,
    /// Warming up and timing.
    pub timed: f64,
    /// Waiting for the reference, which another thread computes. No part of a budget.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited: f64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde asks for it
fn is_false(is_so: &bool) -> bool {
    !is_so
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

impl Cost {
    /// What it took of the budget.
    pub fn total(self) -> f64 {
        self.compile + self.check + self.timed
    }
}

/// The contents of plans, by id.
pub type Plans = BTreeMap<PlanId, Plan>;
