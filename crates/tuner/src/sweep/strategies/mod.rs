//! Ways to search.

pub(in crate::sweep) mod incremental;
mod random;
mod staged;

use crate::seeds::Planted;
use crate::sweep::{Sweep, SweepError};
use incremental::Incremental;
use random::Random;
use staged::Staged;
use std::fmt;
use wgoose_kernels::Plan;
use wgoose_measure::scenario::Scenario;

/// A way to search. It sees records and the time that was spent, and nothing of a device: what it is worth is told on
/// made-up ones.
pub trait Strategy: fmt::Debug + Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// Looks for a plan until its time is over. The default plan has passed the gate by then.
    ///
    /// # Errors
    /// The ledger or the runner fails, nothing right can be run, or the listener breaks.
    fn find(&self, sweep: &mut Sweep<'_>, planted: &Planted) -> Result<Found, SweepError>;
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
}

/// All of them; the first is what `wgoose tune` takes.
pub const STRATEGIES: [&dyn Strategy; 3] = [&Staged, &Incremental, &Random];

/// A name that is no strategy's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is no strategy: there are {all}", all = STRATEGIES.map(|strategy| strategy.name()).join(", "))]
pub struct UnknownStrategy {
    name: String,
}

/// The strategy of a name.
///
/// # Errors
/// There is none.
pub fn strategy(name: &str) -> Result<&'static dyn Strategy, UnknownStrategy> {
    let found = STRATEGIES.into_iter().find(|strategy| strategy.name() == name);
    found.ok_or_else(|| UnknownStrategy { name: name.to_owned() })
}
