//! The strategies: a page each, the list of them here.

mod incremental;
mod random;
mod staged;

use super::strategy::Strategy;
use incremental::Incremental;
use random::Random;
use staged::Staged;

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
