//! What two measurements must have in common to be of one experiment.

use crate::job::Job;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wgoose_graph::Format;
use wgoose_kernels::DeviceFingerprint;

/// Everything that makes two measurements comparable. A name is not an identity: an edited kernel or another driver is another
/// experiment, and does not inherit the old one's numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The candidate.
    pub tried: Tried,
    /// Where it ran.
    pub device: DeviceFingerprint,
    /// Content id of the model, where weights matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Which clock.
    pub clock: Clock,
}

impl Identity {
    /// The identity's content hash, 32 hex digits: equal for all records of one experiment. It covers strings and integers only,
    /// in a fixed order, so that it does not depend on how floats are printed.
    pub fn key(&self) -> String {
        if let Tried::Earlier(earlier) = &self.tried {
            return earlier.key(self);
        }
        let mut hasher = blake3::Hasher::new();
        // Strings, integers and string-keyed maps always serialise; a hasher never fails to take them.
        serde_json::to_writer(&mut hasher, self).expect("an identity is plain JSON");
        short_hex(&hasher.finalize())
    }
}

/// The first 128 bits of a hash: ample for a ledger, and readable.
pub(super) fn short_hex(hash: &blake3::Hash) -> String {
    hash.to_hex()[..32].to_owned()
}

/// What is tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Tried {
    /// A job.
    Job(Job),
    /// What schema 1 has instead; nothing new is written so.
    Earlier(Earlier),
}

impl Tried {
    /// The job, if it is one.
    pub fn job(&self) -> Option<&Job> {
        match self {
            Tried::Job(job) => Some(job),
            Tried::Earlier(_) => None,
        }
    }
}

/// Where times come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The GPU's timestamp queries.
    Timestamps,
    /// Wall clock around submit and poll.
    Wall,
    /// None: the times are made up.
    Simulated,
}

/// What schema 1 says of what was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Earlier {
    /// What.
    pub subject: Subject,
    /// How.
    pub policy: Policy,
}

/// A kernel variant on a shape, or a whole step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Operation, or the loop of a whole plan.
    pub op: String,
    /// Variant of the operation, or the plan's name.
    pub variant: String,
    /// Choices made: tunable to literal; and what had no field of its own.
    pub tunables: BTreeMap<String, String>,
    /// Sizes it ran on: dimension to elements.
    pub shape: BTreeMap<String, u64>,
    /// Format of its first matrix.
    pub format: Option<Format>,
    /// Content hash of the final WGSL, or of the plan.
    pub kernel_hash: String,
}

/// How samples were taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// State of the caches before each sample, such as `weights-rotated`.
    pub cache: String,
    /// Dispatches per sample, as far as was said.
    pub repeats: u32,
    /// Which clock.
    pub clock: Clock,
}

impl Earlier {
    /// The content hash of an identity, as schema 1 has it.
    fn key(&self, identity: &Identity) -> String {
        #[derive(Serialize)]
        struct Fields<'a> {
            subject: &'a Subject,
            device: &'a DeviceFingerprint,
            model: &'a Option<String>,
            policy: &'a Policy,
        }
        let Identity { device, model, .. } = identity;
        let fields = Fields { subject: &self.subject, device, model, policy: &self.policy };
        let text = serde_json::to_vec(&fields).expect("an identity is plain JSON");
        short_hex(&blake3::hash(&text))
    }
}
