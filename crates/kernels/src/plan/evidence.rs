//! The evidence in a plan.

use super::Plan;
use crate::PrecisionClass;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What the tuner measured for a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Content hash of the plan that was measured ([`Plan::hash`]): of another content it says nothing.
    pub plan: String,
    /// Fingerprint of the model file it was tuned with; the quality hash is that file's.
    pub model: String,
    /// Hash of the certified decisions, which every correct plan of the class has.
    pub quality_hash: String,
    /// Class of precision that the hash is of; `None` for plans tuned when hashes differed from plan to plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<PrecisionClass>,
    /// Certified decisions, all of which agree with the reference's.
    #[serde(default)]
    pub decisions: u32,
    /// Longest prompt and largest batch that were checked.
    #[serde(default)]
    pub checked: Checked,
    /// How many positions were certified, and of how many.
    pub certified: (u32, u32),
    /// Root-mean-square error of the logits relative to the reference, token 0 apart.
    pub rms_error: f64,
    /// Scenarios, default against this plan.
    pub scenarios: Vec<ScenarioEvidence>,
    /// Name of the ledger file with the raw samples.
    pub ledger: String,
    /// Variants that were brought along, as `op/variant`, and not tried: the plan has no such op, by its fusions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_op: Vec<String>,
}

/// How much of what a plan may be asked for was held against a reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checked {
    /// Tokens of the longest prompt.
    pub tokens: u32,
    /// Sequences of the largest batch.
    pub sequences: u32,
}

/// `4611 tokens, 128 sequences`.
impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens, {} sequences", self.tokens, self.sequences)
    }
}

/// One scenario, default against this plan, measured in interleaved pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioEvidence {
    /// `decode`, `batched decode` or `prefill`.
    pub scenario: String,
    /// Tokens of all sequences.
    pub tokens: u32,
    /// Median microseconds with the default plan.
    pub default_us: f64,
    /// Median microseconds with this plan.
    pub tuned_us: f64,
    /// 95 % confidence interval of default / tuned.
    pub speedup: (f64, f64),
    /// Pairs measured.
    pub pairs: u32,
}

impl Plan {
    /// The plan, with what was measured of it as it is now.
    #[must_use]
    pub fn with_evidence(self, evidence: Evidence) -> Plan {
        let plan = self.hash();
        Plan { evidence: Some(Evidence { plan, ..evidence }), ..self }
    }

    /// Without evidence of another content.
    pub(super) fn without_lost_evidence(mut self) -> Plan {
        let hash = self.hash();
        self.lost_evidence = self.evidence.take_if(|evidence| evidence.plan != hash).is_some();
        self
    }
}
