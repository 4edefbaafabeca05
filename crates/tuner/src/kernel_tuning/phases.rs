//! Kernels for the phases of a megakernel: found one kind of op instance at a time, and together in the memory
//! of a workgroup.

use super::candidates::{Candidates, RankedPhase};
use super::tuner::{KernelTuner, KernelTuningError};
use rand_xoshiro::SplitMix64;
use std::time::Duration;
use wgoose_kernels::persistent::StageMemory;
use wgoose_kernels::plan::Choice;
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::space::{InstanceGroup, PersistentGrid};

impl KernelTuner<'_> {
    /// Finds kernels that can be phases, until `deadline` (time of the budget), beginning with what is best for an
    /// instance like this one: all that were timed, the fastest first; none if none is right.
    ///
    /// # Errors
    /// The ledger or the device fails.
    pub(crate) fn best_phases(
        &self,
        group: &InstanceGroup,
        cache: &mut ResultCache<'_>,
        grid: PersistentGrid,
        (like, deadline): (Option<&Choice>, Duration),
    ) -> Result<Vec<RankedPhase>, KernelTuningError> {
        let mut candidates = Candidates::of_phase(self, group, cache, grid)?;
        let known = match like.and_then(|like| candidates.find(like)) {
            Some(i) => candidates.measure(i)?.map(|ns| (i, ns)),
            None => None,
        };
        candidates.descend(known, deadline)?;
        candidates.ranked_phases()
    }

    /// So many kernels drawn at random, of those that can be phases of a grid if there is one: those that run, the
    /// fastest first.
    ///
    /// # Errors
    /// The ledger or the device fails.
    pub(crate) fn drawn(
        &self,
        group: &InstanceGroup,
        cache: &mut ResultCache<'_>,
        grid: Option<PersistentGrid>,
        (count, rng): (usize, &mut SplitMix64),
    ) -> Result<Vec<RankedPhase>, KernelTuningError> {
        let mut candidates = match grid {
            Some(grid) => Candidates::of_phase(self, group, cache, grid)?,
            None => Candidates::new(self, group, cache)?,
        };
        candidates.try_drawn(count, rng)?;
        candidates.ranked_phases()
    }

    /// Kernels that can be phases and differ from a choice in one tunable, timed until `deadline`.
    ///
    /// # Errors
    /// The ledger or the device fails.
    pub(crate) fn phases_near(
        &self,
        group: &InstanceGroup,
        cache: &mut ResultCache<'_>,
        grid: PersistentGrid,
        (choice, deadline): (&Choice, Duration),
    ) -> Result<Vec<RankedPhase>, KernelTuningError> {
        let mut candidates = Candidates::of_phase(self, group, cache, grid)?;
        if let Some(from) = candidates.find(choice) {
            candidates.try_near(from, deadline)?;
        }
        candidates.ranked_phases()
    }
}

/// What a kernel takes as a phase: nanoseconds, and workgroup memory.
pub(crate) type Taken = (f64, StageMemory);

/// One kernel for each phase, of lists that begin with the fastest, that together take no more than `limit` bytes of
/// workgroup memory, and the others. `counts` says how often a step runs each. `None` if they never fit.
pub(crate) fn fitting(phases: &[Vec<Taken>], counts: &[u32], limit: u32) -> Option<Vec<usize>> {
    let mut bounds: Vec<u32> = phases.iter().flatten().map(|(_, memory)| memory.shared).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let fits = |bound: u32| {
        let picked = sharing_at_most(bound, phases, counts, limit)?;
        let ns = phases.iter().zip(&picked).zip(counts).map(|((all, i), count)| f64::from(*count) * all[*i].0).sum();
        Some((ns, picked))
    };
    let all: Vec<(f64, Vec<usize>)> = bounds.into_iter().filter_map(fits).collect();
    all.into_iter().min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, picked)| picked)
}

/// The same of kernels that share no more than `bound` bytes: from the fastest of these on, what saves memory at the
/// least loss of time takes the place of what needs more of its own.
fn sharing_at_most(bound: u32, phases: &[Vec<Taken>], counts: &[u32], limit: u32) -> Option<Vec<usize>> {
    let first = |all: &Vec<Taken>| all.iter().position(|(_, memory)| memory.shared <= bound);
    let mut picked: Vec<usize> = phases.iter().map(first).collect::<Option<_>>()?;
    loop {
        let now = phases.iter().zip(&picked).map(|(all, i)| all[*i].1);
        if StageMemory::of_all(now) <= limit {
            return Some(picked);
        }
        let mut cheapest: Option<(f64, usize, usize)> = None;
        for (phase, all) in phases.iter().enumerate() {
            let (now_ns, now) = all[picked[phase]];
            for (i, (ns, other)) in all.iter().enumerate().skip(picked[phase] + 1) {
                let saved = now.own.saturating_sub(other.own);
                if saved == 0 || other.shared > bound {
                    continue;
                }
                let price = f64::from(counts[phase]) * (ns - now_ns) / f64::from(saved);
                if cheapest.is_none_or(|(least, ..)| price < least) {
                    cheapest = Some((price, phase, i));
                }
            }
        }
        let (_, phase, i) = cheapest?;
        picked[phase] = i;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(ns: f64, shared: u32, own: u32) -> Taken {
        (ns, StageMemory { shared, own })
    }

    #[test]
    fn phases_share_the_workgroup_memory_at_the_least_cost() {
        let phases = [
            vec![phase(10.0, 0, 400), phase(12.0, 0, 100), phase(13.0, 0, 50)],
            vec![phase(20.0, 600, 100), phase(21.0, 300, 100)],
            vec![phase(5.0, 600, 0), phase(50.0, 0, 0)],
        ];
        let fit = |counts, limit| fitting(&phases, counts, limit);
        assert_eq!(fit(&[1, 1, 1], 2000), Some(vec![0, 0, 0]));
        // What costs 2 ns in its own memory, not what costs 46 of the shared.
        assert_eq!(fit(&[1, 1, 1], 1000), Some(vec![1, 0, 0]));
        // Where it runs often, less sharing is cheaper.
        assert_eq!(fit(&[100, 1, 1], 1000), Some(vec![0, 1, 1]));
        assert_eq!(fit(&[1, 1, 1], 100), None);
    }
}
