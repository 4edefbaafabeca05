//! What two measurements must have in common to be of one experiment.

use crate::job::Job;
use serde::{Deserialize, Serialize};
use wgoose_kernels::DeviceFingerprint;

/// Everything that makes two measurements comparable. A name is not an identity: an edited kernel or another driver is
/// another experiment, and does not inherit the old one's numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The candidate.
    pub tried: Job,
    /// Where it ran.
    pub device: DeviceFingerprint,
    /// Content id of the model, where weights matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Which clock.
    pub clock: Clock,
}

impl Identity {
    /// The identity's content hash, 32 hex digits: equal for all records of one experiment. It covers strings and
    /// integers only, in a fixed order, so that it does not depend on how floats are printed.
    pub fn key(&self) -> String {
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
