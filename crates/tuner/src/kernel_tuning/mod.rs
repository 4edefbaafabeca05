//! Per-kernel tuning: which kernel is the fastest for one kind of op instance, alone.
//!
//! Every candidate is checked against the reference before it is timed. Variants are compared at their defaults first;
//! from the best, one tunable at a time is varied for as long as that helps (coordinate descent; `exhaustive` tries
//! every configuration), and then what is likely to be fast by all that was timed. The best is then compared with the
//! default in interleaved pairs, twice: the second comparison decides, on samples that did not choose it. Kernels for
//! the phases of a megakernel are found in the same way, but not compared so: only whole steps can say whether
//! they pay.

mod candidates;
mod likely;
mod phases;
mod side_by_side;
mod tuner;

use candidates::Candidates;
pub(crate) use candidates::RankedPhase;
pub(crate) use phases::{Taken, fitting};
pub use side_by_side::{Beside, SideBySide, TimedVariant, VariantPair};
use std::time::Duration;
pub use tuner::{KernelTuner, KernelTuningError};
use wgoose_kernels::TextError;
use wgoose_kernels::plan::Choice;
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::space::InstanceGroup;

/// Kernels that are kept where whole steps decide: the fastest alone need not be the fastest there.
const KEPT: usize = 4;

/// Two kernels that were not timed in turns may seem to differ by this factor on a busy machine.
const NOISY: f64 = 2.0;

/// What was found for one kind of instance.
#[derive(Clone, Debug)]
pub struct TunedKernel {
    /// What beat the default, if anything did.
    pub winner: Option<Choice>,
    /// Median nanoseconds of the default.
    pub default_ns: f64,
    /// Median nanoseconds of the best.
    pub best_ns: f64,
    /// Candidates measured.
    pub tried: usize,
    /// What is wrong with the files of variants that were left out.
    pub broken: Vec<TextError>,
}

impl KernelTuner<'_> {
    /// Median nanoseconds of the default kernel: what a group costs before tuning.
    ///
    /// # Errors
    /// The default cannot be run.
    pub(crate) fn default_ns(
        &self,
        group: &InstanceGroup,
        cache: &mut ResultCache<'_>,
    ) -> Result<f64, KernelTuningError> {
        let mut candidates = Candidates::new(self, group, cache)?;
        let default = candidates.default;
        Ok(candidates.measure(default)?.unwrap_or(f64::INFINITY))
    }

    /// What a known plan has for such op instances, if it is faster alone than the default.
    ///
    /// # Errors
    /// The ledger or the device fails.
    pub(crate) fn faster_hint(
        &self,
        group: &InstanceGroup,
        cache: &mut ResultCache<'_>,
    ) -> Result<Option<Choice>, KernelTuningError> {
        let mut candidates = Candidates::new(self, group, cache)?;
        let Some(hint) = candidates.hinted().first().copied() else { return Ok(None) };
        let default = candidates.default;
        let [own, hinted] = [default, hint].map(|i| candidates.measure(i));
        let (own, hinted) = (own?.unwrap_or(f64::INFINITY), hinted?.unwrap_or(f64::INFINITY));
        let may_be_faster = hinted < NOISY * own;
        let is_faster = may_be_faster && candidates.is_faster(default, hint, true)? == Some(true);
        is_faster.then(|| candidates.choice(hint)).transpose()
    }

    /// The default kernel of a kind of instance, by name.
    ///
    /// # Errors
    /// The ledger fails.
    pub(crate) fn default_choice(
        &self,
        group: &InstanceGroup,
        cache: &mut ResultCache<'_>,
    ) -> Result<Choice, KernelTuningError> {
        let candidates = Candidates::new(self, group, cache)?;
        candidates.choice(candidates.default)
    }

    /// Hash of the bits that the default kernel makes, if it is right.
    ///
    /// # Errors
    /// The ledger or the device fails.
    pub(crate) fn default_bits(
        &self,
        group: &InstanceGroup,
        cache: &mut ResultCache<'_>,
    ) -> Result<Option<String>, KernelTuningError> {
        Candidates::new(self, group, cache)?.default_bits()
    }

    /// Times every kernel that is admitted: how many, and the median nanoseconds of the fastest.
    ///
    /// # Errors
    /// The ledger or the device fails.
    pub(crate) fn time_all(
        &self,
        group: &InstanceGroup,
        cache: &mut ResultCache<'_>,
    ) -> Result<(usize, Option<f64>), KernelTuningError> {
        let mut candidates = Candidates::new(self, group, cache)?;
        candidates.record_refusals()?;
        let best = candidates.time_admitted()?;
        Ok((candidates.tried, best.map(|(_, ns)| ns)))
    }

    /// The kernels that are the fastest alone, found until `deadline` (time of the budget): the fastest first, at most
    /// [`KEPT`].
    ///
    /// # Errors
    /// The ledger or the device fails.
    pub(crate) fn ranked(
        &self,
        group: &InstanceGroup,
        cache: &mut ResultCache<'_>,
        deadline: Duration,
    ) -> Result<Vec<RankedPhase>, KernelTuningError> {
        let mut candidates = Candidates::new(self, group, cache)?;
        let default = candidates.default;
        let known = candidates.measure(default)?.map(|ns| (default, ns));
        candidates.descend(known, deadline)?;
        let mut ranked = candidates.ranked_phases()?;
        ranked.truncate(KEPT);
        Ok(ranked)
    }

    /// Finds the best kernel until `deadline`, time of the budget.
    ///
    /// # Errors
    /// The ledger or the device fails.
    pub fn tune(
        &self,
        group: &InstanceGroup,
        cache: &mut ResultCache<'_>,
        deadline: Duration,
    ) -> Result<TunedKernel, KernelTuningError> {
        self.tune_on(group, cache, None, deadline)
    }

    /// The same from the one on that won before.
    ///
    /// # Errors
    /// As of [`KernelTuner::tune`].
    pub(crate) fn tune_on(
        &self,
        group: &InstanceGroup,
        cache: &mut ResultCache<'_>,
        won: Option<&Choice>,
        deadline: Duration,
    ) -> Result<TunedKernel, KernelTuningError> {
        let mut candidates = Candidates::new(self, group, cache)?;
        candidates.record_refusals()?;
        let default = candidates.default;
        let default_ns = candidates.measure(default)?.unwrap_or(f64::INFINITY);
        let mut known = (default, default_ns);
        if let Some(won) = won.and_then(|won| candidates.find(won)) {
            known = candidates.measure(won)?.map_or(known, |ns| (won, ns));
        }
        let best = candidates.descend(Some(known), deadline)?.unwrap_or(known);
        let (mut winner, mut best_ns) = (None, best.1);
        for i in candidates.ranked().into_iter().take_while(|i| *i != default) {
            // What fails when it is compared was no candidate: the next one has its turn.
            let is_faster = match candidates.is_faster(default, i, false)? {
                Some(true) => candidates.is_faster(default, i, true)?,
                known => known,
            };
            let Some(is_faster) = is_faster else { continue };
            best_ns = candidates.measure(i)?.unwrap_or(best_ns);
            if is_faster {
                winner = Some(candidates.choice(i)?);
            }
            break;
        }
        Ok(TunedKernel { winner, default_ns, best_ns, tried: candidates.tried, broken: candidates.broken() })
    }

    /// The default kernel of a kind of instance, unless what won with more rows is faster there, too, as far as that
    /// can be told until `deadline`: a plan's choice serves fewer rows as well, where they have none of their own.
    ///
    /// # Errors
    /// The ledger or the device fails.
    pub fn default_unless_faster(
        &self,
        group: &InstanceGroup,
        cache: &mut ResultCache<'_>,
        won: &Choice,
        deadline: Duration,
    ) -> Result<Option<Choice>, KernelTuningError> {
        let is_late = cache.spent() >= deadline;
        let mut candidates = Candidates::new(self, group, cache)?;
        let default = candidates.default;
        let is_faster = match candidates.find(won) {
            Some(same) if same == default => return Ok(None),
            Some(i) if !is_late && candidates.measure(default)?.is_some() && candidates.measure(i)?.is_some() => {
                candidates.is_faster(default, i, false)? == Some(true)
            }
            _ => false,
        };
        if is_faster { Ok(None) } else { candidates.choice(default).map(Some) }
    }
}
