//! A way to search.

use super::error::SweepError;
use super::trials::Trials;
use crate::kernel_tuning::KernelTuner;
use std::fmt;
use wgoose_kernels::Plan;
use wgoose_measure::scenario::Scenario;

/// A way to search: it says which stages run, in which order. It sees results and the time that was spent, and nothing
/// of a device: what it is worth is told on simulated ones.
pub trait Strategy: fmt::Debug + Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// Looks for a plan until its time is over. The default plan has passed the gate by then.
    ///
    /// # Errors
    /// The ledger or the runner fails, nothing right can be run, or the listener breaks.
    fn find(&self, trials: &mut Trials<'_>, tuner: &KernelTuner<'_>) -> Result<Found, SweepError>;
}

/// The plan that a strategy found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The best with default kernels.
    pub structure: Plan,
    /// The best.
    pub plan: Plan,
    /// Scenarios whose kernels were chosen one by one, and not yet in whole passes.
    pub alone: Vec<Scenario>,
    /// Variants that the user brought along and whose op is in no pass of the plan, by name.
    pub without_op: Vec<String>,
}
