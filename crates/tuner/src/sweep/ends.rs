//! How a sweep's time is shared.

use super::{Part, SweepOptions};
use crate::memo::LATE;
use std::time::Duration;

/// The shares of the budget at which stages end. The last one ends with it.
pub(super) struct Ends {
    pub(super) structure: f64,
    pub(super) stages: f64,
    pub(super) forms: f64,
    pub(super) merged: f64,
    pub(super) kernels: f64,
    pub(super) layouts: f64,
}

impl Ends {
    /// With persistent kernels, which hold most of what decoding takes.
    const MERGED: Ends =
        Ends { structure: 0.15, stages: 0.33, forms: 0.48, merged: 0.72, kernels: 0.84, layouts: 0.86 };

    /// Without.
    const APART: Ends = Ends { structure: 0.3, stages: 0.3, forms: 0.3, merged: 0.3, kernels: 0.7, layouts: 0.8 };

    /// Without kernels.
    const STRUCTURE: Ends = Ends { structure: 1.0, stages: 1.0, forms: 1.0, merged: 1.0, kernels: 1.0, layouts: 1.0 };

    /// What kernels have at the least where the last stage takes more than is left for it.
    pub(super) const KERNELS: f64 = 0.1;

    /// Those of a sweep.
    pub(super) fn of(options: &SweepOptions) -> Self {
        match options.persistent && options.objective.decodes() {
            _ if !options.parts.contains(&Part::Kernels) => Ends::STRUCTURE,
            true => Ends::MERGED,
            false => Ends::APART,
        }
    }
}

/// A budget but for the last seconds of it: they are for what has begun by then, and for confirming what has won.
pub(super) fn working(budget: Duration) -> Duration {
    budget - LATE.min(budget / 20)
}

/// A share of a time, however long that is.
pub(super) fn share_of(time: Duration, share: f64) -> Duration {
    Duration::try_from_secs_f64(time.as_secs_f64() * share).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_budget_is_too_long_to_be_shared() {
        assert_eq!(share_of(Duration::from_secs(u64::MAX), 1.0), Duration::from_secs(u64::MAX));
        assert_eq!(share_of(Duration::from_secs(100), 0.5), Duration::from_secs(50));
        assert_eq!([300, 20].map(|s| working(Duration::from_secs(s)).as_secs()), [290, 19]);
    }
}
