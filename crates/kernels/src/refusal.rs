//! Reasons for not using a kernel.

use crate::heuristics::Heuristic;
use crate::wgsl::{Broken, TextError};
use crate::{Feature, Knows, Precision};
use std::sync::Arc;

/// Why a configuration of a variant is not used at an instance: a constraint, not a fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A rule of legality in its files.
    #[error("{reason} ({path}.wgsl:{line})")]
    Illegal {
        /// The file with the rule.
        path: Arc<str>,
        /// Its line.
        line: usize,
        /// The rule.
        rule: String,
        /// Its comment.
        reason: String,
    },
    /// A speed heuristic, which an exhaustive sweep ignores.
    #[error("pruned: {reason} ({file}:{line})")]
    Pruned {
        /// The file with the rule.
        file: Arc<str>,
        /// Its line.
        line: usize,
        /// The rule.
        rule: String,
        /// What follows it.
        reason: String,
    },
    /// The format of an operand has no reader of the kind that it uses.
    #[error("{operand} is stored as {format}, which has no such readers: {readers}")]
    Reader {
        /// The operand.
        operand: String,
        /// Its format.
        format: &'static str,
        /// The functions, types and constants that `lib/quant/FORMAT.wgsl` lacks.
        readers: String,
    },
    /// It knows that operand as f32 only.
    #[error("{operand} is stored as packed f16, which it does not know ('{knows}')")]
    Packed {
        /// The operand.
        operand: &'static str,
        /// What its file would have to say.
        knows: Knows,
    },
    /// The device lacks a feature.
    #[error("the device has no {0}")]
    Feature(Feature),
    /// The device's limits are too low.
    #[error("needs {need} {what}, the device has {limit}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// How many are needed.
        need: u64,
        /// How many there are.
        limit: u64,
    },
    /// It rounds what must not be rounded.
    #[error("computes with {0}, which is not allowed")]
    Precision(Precision),
    /// It cannot be a stage of a persistent kernel.
    #[error("cannot be a stage of a persistent kernel: {0}")]
    Stage(&'static str),
    /// Nothing of the kind exists.
    #[error("{0}")]
    None(&'static str),
}

impl Refusal {
    /// Whether it is the device that has too little: another one might run the kernel as it is.
    pub fn is_of_device(&self) -> bool {
        matches!(self, Refusal::Feature(_) | Refusal::Limit { .. })
    }

    pub(crate) fn broken(Broken { path, line, rule, reason }: Broken) -> Self {
        Refusal::Illegal { path, line, rule, reason }
    }

    pub(crate) fn pruned(Heuristic { file, rule, .. }: &Heuristic) -> Self {
        let (line, reason) = (rule.line, rule.reason.clone());
        Refusal::Pruned { file: Arc::clone(file), line, rule: rule.text.clone(), reason }
    }
}

/// Why there is no kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// A constraint: another configuration or variant may do.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Its text is wrong: no other kernel may stand in for it.
    #[error(transparent)]
    Text(#[from] TextError),
}
