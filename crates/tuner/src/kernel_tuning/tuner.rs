//! The surroundings of kernel tuning: device, budget and op instances.

use crate::seeds::Planted;
use wgoose_kernels::plan::{Choice, TuningKey};
use wgoose_kernels::{Catalogue, Limits, Plan, PlanError, ops};
use wgoose_measure::result_cache::TrialError;
use wgoose_measure::space::Scope;

/// What stops the tuning of kernels for good.
#[derive(Debug, thiserror::Error)]
pub enum KernelTuningError {
    /// The ledger, or the runner.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// The default kernel.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl From<wgoose_measure::ledger::LedgerError> for KernelTuningError {
    fn from(error: wgoose_measure::ledger::LedgerError) -> Self {
        KernelTuningError::Trial(error.into())
    }
}

/// What kernels are tuned with.
#[derive(Clone, Copy)]
pub struct KernelTuner<'a> {
    /// What the device can do.
    pub limits: &'a Limits,
    /// The variants.
    pub catalogue: &'a Catalogue,
    /// What of the space is tried; `exhaustive` also tries every configuration.
    pub scope: Scope,
    /// What was proposed from outside.
    pub(crate) seeds: Option<&'a Planted>,
    /// Plans whose kernels are tried first wherever they fit.
    pub(crate) hints: &'a [Plan],
}

impl<'a> KernelTuner<'a> {
    /// One that draws its candidates itself.
    pub fn new(limits: &'a Limits, catalogue: &'a Catalogue, scope: Scope) -> Self {
        KernelTuner { limits, catalogue, scope, seeds: None, hints: &[] }
    }

    /// One that tries the kernels of these plans first.
    pub(crate) fn with_hints(self, hints: &'a [Plan]) -> Self {
        KernelTuner { hints, ..self }
    }

    /// What known plans have chosen for such op instances, of the nearest sizes first.
    pub(crate) fn hints_for(&self, key: &TuningKey) -> Vec<&'a Choice> {
        // Ops of one folder have the same variants.
        let folder = |op: &str| ops::ALL.iter().find(|known| known.name == op).map(|known| known.folder);
        let is_alike = |other: &TuningKey| {
            let is_like = (&other.formats, other.up_to_rows) == (&key.formats, key.up_to_rows);
            is_like && folder(&other.op) == folder(&key.op)
        };
        let choices = self.hints.iter().flat_map(|plan| &plan.choices);
        let mut choices: Vec<&Choice> = choices.filter(|choice| is_alike(&choice.key)).collect();
        choices.sort_by_key(|choice| choice.key.k.abs_diff(key.k) + choice.key.m.abs_diff(key.m));
        choices
    }

    /// One that measures these before all others.
    pub fn with_seeds(self, seeds: &'a Planted) -> Self {
        KernelTuner { seeds: Some(seeds), ..self }
    }
}
