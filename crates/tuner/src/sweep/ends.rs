//! How a sweep's time is shared.

use super::options::{Part, SweepOptions};
use std::time::Duration;
use wgoose_kernels::persistent::NEEDS;
use wgoose_measure::problem::Problem;
use wgoose_measure::result_cache::late;

/// A shorter budget has time for one form of the megakernel, which is worth more than all else, and not for what
/// surrounds it.
const SHORT_BUDGET: Duration = Duration::from_secs(60);

/// What follows once the phases of one megakernel are found: it is compiled and compared, two plans pass the gate, one
/// of them the extended one, and a process begins that confirms it. An H100 takes 11 to 13 s for 1.5 to 7.2 billion
/// weights without the extended gate.
const FINISHING: Duration = Duration::from_secs(15);

/// What it takes to write the plan and to end processes.
const LEAVING: Duration = Duration::from_secs(5);

/// The shares of the budget at which stages end. The last one ends with it.
pub(super) struct Ends {
    pub(super) structure: f64,
    pub(super) phases: f64,
    pub(super) forms: f64,
    pub(super) sampling: f64,
    pub(super) kernels: f64,
    pub(super) layouts: f64,
    /// Whether time is short: for one form of a megakernel, and one process that confirms it.
    pub(super) is_short: bool,
}

impl Ends {
    /// With megakernels, which hold most of what decoding takes.
    const MEGAKERNEL: Ends = Ends {
        structure: 0.15,
        phases: 0.33,
        forms: 0.48,
        sampling: 0.72,
        kernels: 0.84,
        layouts: 0.86,
        is_short: false,
    };

    /// Without.
    const APART: Ends =
        Ends { structure: 0.3, phases: 0.3, forms: 0.3, sampling: 0.3, kernels: 0.7, layouts: 0.8, is_short: false };

    /// Without, in a short time: half of it is for the end, in which prompts are compared, too.
    const SHORT: Ends =
        Ends { structure: 0.2, phases: 0.2, forms: 0.2, sampling: 0.2, kernels: 0.45, layouts: 0.5, is_short: true };

    /// Without kernels.
    const STRUCTURE: Ends =
        Ends { structure: 1.0, phases: 1.0, forms: 1.0, sampling: 1.0, kernels: 1.0, layouts: 1.0, is_short: false };

    /// What phases have at the least of a short time.
    const PHASES: f64 = 0.2;

    /// What kernels have at the least where the last stage takes more than is left for it.
    pub(super) const KERNELS: f64 = 0.1;

    /// One megakernel, in a short time: what is not needed to finish it goes into finding its phases. If it does not
    /// win, other kernels have their turn.
    fn one_form(working: Duration) -> Self {
        let phases = (1.0 - FINISHING.div_duration_f64(working)).max(Ends::PHASES);
        Ends {
            structure: 0.0,
            phases,
            forms: 0.0,
            sampling: 0.0,
            kernels: phases.max(Ends::SHORT.kernels),
            ..Ends::SHORT
        }
    }

    /// Those of a sweep.
    pub(super) fn of(problem: &Problem, options: &SweepOptions) -> Self {
        let limits = &problem.limits;
        let can_merge = NEEDS.iter().all(|feature| limits.features.contains(feature));
        // A CPU that plays the device has the reference first, and no megakernel that wins.
        let is_short = options.budget < SHORT_BUDGET && !options.exhaustive && !limits.is_cpu;
        let ends = match can_merge && options.persistent && options.objective.decodes() {
            _ if !options.parts.contains(&Part::Kernels) => Ends::STRUCTURE,
            true if is_short => Ends::one_form(working(options.budget)),
            true => Ends::MEGAKERNEL,
            false if is_short => Ends::SHORT,
            false => Ends::APART,
        };
        Ends { is_short, ..ends }
    }
}

/// A budget but for the last seconds of it: they are for what has begun by then, for confirming what has won, and for
/// the end.
pub(super) fn working(budget: Duration) -> Duration {
    budget - (late(budget) + LEAVING).min(budget / 20)
}

/// A share of a time, however long that is.
pub(super) fn share_of(time: Duration, share: f64) -> Duration {
    Duration::try_from_secs_f64(time.as_secs_f64() * share).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_budget_can_be_shared() {
        assert_eq!(share_of(Duration::from_secs(u64::MAX), 1.0), Duration::from_secs(u64::MAX));
        assert_eq!(share_of(Duration::from_secs(100), 0.5), Duration::from_secs(50));
        assert_eq!([300, 20].map(|s| working(Duration::from_secs(s)).as_secs()), [285, 19]);
    }
}
