//! Messages over the pipes: one JSON line each. Jobs, plans and times, never the data of operands.

use crate::job::{Configured, Cost, Job};
use crate::ledger::{Clock, Outcome};
use crate::paired::Effort;
use crate::runner::Phase;
use crate::space::InstanceGroup;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use wgoose_kernels::{DeviceFingerprint, Limits, Plan};

/// What the parent asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Request {
    /// To open the device and the model, and to do what is asked for then.
    Open,
    /// To open the model as people do, and to read a prompt with a plan until the first token is chosen. Then the
    /// process ends.
    Start {
        /// File of the plan.
        plan: PathBuf,
        /// Tokens of the prompt.
        tokens: u32,
    },
    /// A job with what it names.
    Run {
        /// What to do.
        job: Box<Job>,
        /// Its site, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        site: Option<Box<InstanceGroup>>,
        /// The contents of its plans, in its order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        plans: Vec<Plan>,
        /// How a comparison is made.
        effort: Effort,
    },
    /// Kernels to compile ahead.
    CompileAhead {
        /// Where.
        site: Box<InstanceGroup>,
        /// Which.
        kernels: Vec<Configured>,
    },
}

impl Request {
    /// A word for its kind.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Request::Open => "open",
            Request::Start { .. } => "start",
            Request::Run { job, .. } => job.name(),
            Request::CompileAhead { .. } => "compile",
        }
    }
}

/// What the child says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Reply {
    /// It has a runner on this device.
    Ready {
        /// Which.
        device: DeviceFingerprint,
        /// What that can do.
        limits: Box<Limits>,
        /// What kernels are timed with.
        clock: Clock,
        /// Why it is not the device's.
        doubt: Option<String>,
    },
    /// The first token is chosen.
    Started,
    /// It begins with something that has a deadline of its own.
    Phase {
        /// With what.
        phase: Phase,
    },
    /// What came of a request.
    Ended {
        /// That.
        outcome: Box<Outcome>,
        /// What it took.
        cost: Cost,
    },
    /// Nothing more can be run there.
    Stopped {
        /// Why.
        why: String,
    },
}
