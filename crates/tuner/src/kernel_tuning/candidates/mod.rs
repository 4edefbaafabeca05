//! The candidates for one kind of instance: each measured once and recorded.

mod pairs;
mod search;

use crate::kernel_tuning::tuner::{KernelTuner, KernelTuningError};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wgoose_kernels::persistent::{StageMemory, can_be_stage};
use wgoose_kernels::plan::{Choice, default_kernel};
use wgoose_kernels::{Kernel, KernelError, Refusal, TextError, Variant};
use wgoose_measure::job::Configured;
use wgoose_measure::ledger::{Cause, Gate, Outcome, Reason, Timing};
use wgoose_measure::result_cache::{ResultCache, TrialError};
use wgoose_measure::space::PersistentGrid;
use wgoose_measure::space::{BrokenVariant, Configuration, InstanceGroup, configurations};
use wgoose_measure::stats::summary::median;
use wgoose_measure::stats::verdict::Verdict;

/// Two kernels are as fast as each other whose times alone differ by no more than this share: which is ahead changes
/// from sweep to sweep.
const NOISE: f64 = 0.01;

/// What a configuration makes.
#[derive(Clone)]
enum Made {
    Kernel(Configured),
    Refused(Refusal),
}

/// A kernel that can be a phase.
#[derive(Clone, Debug)]
pub(crate) struct RankedPhase {
    /// The kernel.
    pub(crate) choice: Choice,
    /// Median nanoseconds, alone.
    pub(crate) ns: f64,
    /// Workgroup memory.
    pub(crate) memory: StageMemory,
    /// Hash of the bits that it makes, if they were looked at.
    pub(crate) bits: Option<String>,
}

/// The candidates of one group.
pub(super) struct Candidates<'a, 'm, 'l> {
    tuner: &'a KernelTuner<'a>,
    group: &'a InstanceGroup,
    cache: &'m mut ResultCache<'l>,
    all: Vec<Configuration<'a>>,
    /// Variants that failed for good.
    broken: Vec<BrokenVariant<'a>>,
    pub(super) default: usize,
    /// What configurations made: a text takes milliseconds.
    made: BTreeMap<usize, Made>,
    pub(super) tried: usize,
    /// Those that were asked for, whatever came of it.
    asked: BTreeSet<usize>,
    /// Median nanoseconds of those that were measured or recalled.
    timed: Vec<(usize, f64)>,
    /// Hashes of the bits that they make.
    bits: BTreeMap<usize, String>,
    /// What they must suit, if they are to be phases.
    grid: Option<PersistentGrid>,
    /// Workgroup memory of those that were made.
    memory: BTreeMap<usize, StageMemory>,
    /// Those that a speed heuristic prunes and a seed names.
    overruled: BTreeSet<usize>,
    /// What is no candidate, as it suits other grids, and was timed: what is fast there is likely to be fast here.
    elsewhere: Vec<(Configuration<'a>, f64)>,
}

impl<'a, 'm, 'l> Candidates<'a, 'm, 'l> {
    pub(super) fn new(
        tuner: &'a KernelTuner<'a>,
        group: &'a InstanceGroup,
        cache: &'m mut ResultCache<'l>,
    ) -> Result<Self, KernelTuningError> {
        let limits = tuner.limits;
        let (all, broken) = configurations(group, limits, tuner.scope, tuner.catalogue);
        let (variant, config, _) = default_kernel(&group.unpacked(), tuner.scope.allowed, limits, tuner.catalogue)?;
        let is_default = |c: &Configuration<'_>| c.variant.path() == variant.path() && c.config == config;
        let default = all.iter().position(is_default).unwrap_or(0);
        let (made, tried, timed, bits) = (BTreeMap::new(), 0, Vec::new(), BTreeMap::new());
        let (grid, memory, overruled, asked) = (None, BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let mut candidates = Candidates {
            tuner,
            group,
            cache,
            all,
            broken,
            default,
            made,
            tried,
            asked,
            timed,
            bits,
            grid,
            memory,
            overruled,
            elsewhere: Vec::new(),
        };
        for (variant, error) in candidates.broken.clone() {
            candidates.record_broken(variant, &error)?;
        }
        Ok(candidates)
    }

    /// Those that may be phases, the likeliest first: of a fixed grid, of the least precise arithmetic that is allowed,
    /// wide, and near their defaults otherwise.
    pub(super) fn of_phase(
        tuner: &'a KernelTuner<'a>,
        group: &'a InstanceGroup,
        cache: &'m mut ResultCache<'l>,
        grid: PersistentGrid,
    ) -> Result<Self, KernelTuningError> {
        let mut candidates = Candidates::new(tuner, group, cache)?;
        let limits = tuner.limits;
        let (own, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut candidates.all).into_iter().partition(|c| grid.admits(c.variant, &c.config, limits));
        let timed: BTreeMap<_, f64> = candidates
            .cache
            .timed(group)
            .into_iter()
            .map(|(kernel, ns)| ((kernel.variant, kernel.config), ns))
            .collect();
        let ns = |c: &Configuration<'_>| timed.get(&(c.variant.name().to_owned(), c.variant.spell(&c.config))).copied();
        candidates.elsewhere = others.into_iter().filter_map(|c| ns(&c).map(|ns| (c, ns))).collect();
        candidates.all = own;
        candidates.all.sort_by_cached_key(|c| {
            let number = |name: &str| c.variant.tunable(&c.config, name, limits);
            let (is_fixed, width) = (number("GRID").is_some(), number("WG").unwrap_or(0));
            let distance = c.config.distance(&c.variant.default_config());
            (Reverse(is_fixed), Reverse(c.variant.precision(&c.config)), Reverse(width), distance)
        });
        Ok(Candidates { default: 0, grid: Some(grid), ..candidates })
    }

    /// The configuration of a choice.
    pub(super) fn find(&self, choice: &Choice) -> Option<usize> {
        self.all.iter().position(|c| c.variant.name() == choice.variant && c.variant.spell(&c.config) == choice.config)
    }

    /// What is wrong with the files of variants that were left out.
    pub(super) fn broken(&self) -> Vec<TextError> {
        self.broken.iter().map(|(_, error)| error.clone()).collect()
    }

    /// The first configuration of each variant that makes a kernel here.
    pub(super) fn first_of_each_variant(&mut self) -> Result<Vec<usize>, KernelTuningError> {
        let mut seen: Vec<&str> = Vec::new();
        let mut first = Vec::new();
        for i in 0..self.all.len() {
            let (is_refused, name) = (self.all[i].refusal.is_some(), self.all[i].variant.name());
            if !is_refused && !seen.contains(&name) && matches!(self.kernel(i)?, Made::Kernel(_)) {
                seen.push(name);
                first.push(i);
            }
        }
        Ok(first)
    }

    /// One record per variant and reason, with the number of configurations refused.
    pub(super) fn record_refusals(&mut self) -> Result<(), KernelTuningError> {
        let mut reasons: BTreeMap<(&str, String), usize> = BTreeMap::new();
        for c in &self.all {
            if let Some(refusal) = &c.refusal {
                *reasons.entry((c.variant.name(), refusal.to_string())).or_default() += 1;
            }
        }
        let of = self.all.len() as u32;
        for ((variant, text), count) in reasons {
            let reason = Reason { cause: Cause::Constraint, text };
            self.cache.refuse(Some(self.group), variant, [count as u32, of], reason)?;
        }
        Ok(())
    }

    /// Records a variant whose files are wrong.
    fn record_broken(&mut self, variant: &Variant, error: &TextError) -> Result<(), KernelTuningError> {
        let reason = Reason { cause: Cause::Compile, text: error.to_string() };
        let of = self.all.len() as u32;
        Ok(self.cache.refuse(Some(self.group), variant.name(), [of, of], reason)?)
    }

    /// The kernel of a configuration, or why there is none. Once a variant's text is wrong, it has none at all.
    fn kernel(&mut self, i: usize) -> Result<Made, KernelTuningError> {
        let Configuration { variant, config, .. } = self.all[i].clone();
        if self.broken.iter().any(|(other, _)| other.path() == variant.path()) {
            return Ok(Made::Refused(Refusal::None("the variant's text is wrong")));
        }
        if let Some(made) = self.made.get(&i) {
            return Ok(made.clone());
        }
        let instance = self.group.instance_for(variant, &config, self.tuner.limits);
        let made = match Kernel::new(variant, &instance, &config, self.tuner.limits) {
            Err(KernelError::Text(error)) => {
                self.record_broken(variant, &error)?;
                self.broken.push((variant, error));
                Made::Refused(Refusal::None("the variant's text is wrong"))
            }
            Err(KernelError::Refused(refusal)) => Made::Refused(refusal),
            Ok(kernel) => match self.grid {
                Some(grid) if !can_be_stage(&kernel, grid.threads) => {
                    Made::Refused(Refusal::Stage("its workgroups are of another size"))
                }
                _ => {
                    self.memory.insert(i, StageMemory::of(&kernel));
                    let (name, config) = (variant.name().to_owned(), variant.spell(&config));
                    Made::Kernel(Configured { variant: name, config, text: kernel.hash.to_string() })
                }
            },
        };
        self.made.insert(i, made.clone());
        Ok(made)
    }

    /// Median nanoseconds of a candidate; `None` if it is refused, fails or is wrong.
    pub(super) fn measure(&mut self, i: usize) -> Result<Option<f64>, KernelTuningError> {
        let outcome = self.outcome(i)?;
        let ns = median(outcome.samples_ns());
        if let Outcome::Kernel(Timing { gate: Some(Gate { bits: Some(bits), .. }), .. }) = outcome {
            self.bits.insert(i, bits);
        }
        if let Some(ns) = ns.filter(|_| self.timed.iter().all(|(known, _)| *known != i)) {
            self.timed.push((i, ns));
        }
        Ok(ns)
    }

    /// Hash of the bits that the default makes, if it is right.
    pub(super) fn default_bits(&mut self) -> Result<Option<String>, KernelTuningError> {
        self.measure(self.default)?;
        Ok(self.bits.get(&self.default).cloned())
    }

    /// Those that were timed, the fastest first. Of those that are as fast as the fastest those come first that make
    /// the default's bits, in the order of the catalogue: two sweeps of one machine choose alike.
    pub(super) fn ranked(&self) -> Vec<usize> {
        let own = self.bits.get(&self.default);
        canonical(&self.timed, &|i| own.is_some() && self.bits.get(&i) == own)
    }

    /// Those that were timed, as phases, the fastest first.
    pub(super) fn ranked_phases(&self) -> Result<Vec<RankedPhase>, KernelTuningError> {
        let mut timed = self.timed.clone();
        timed.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        let phase = |(i, ns)| {
            let memory = self.memory.get(&i).copied().unwrap_or_default();
            Ok(RankedPhase { choice: self.choice(i)?, ns, memory, bits: self.bits.get(&i).cloned() })
        };
        timed.into_iter().map(phase).collect()
    }

    /// What came of a candidate, measured now unless it was before.
    pub(super) fn outcome(&mut self, i: usize) -> Result<Outcome, KernelTuningError> {
        self.asked.insert(i);
        if let Some(refusal) = self.all[i].refusal.as_ref().filter(|_| !self.overruled.contains(&i)) {
            return Ok(Outcome::failed(Cause::Constraint, refusal.to_string()));
        }
        match self.kernel(i)? {
            Made::Kernel(kernel) => {
                self.tried += 1;
                Ok(self.cache.kernel(self.group, kernel)?)
            }
            Made::Refused(refusal) => {
                let reason = Reason { cause: Cause::Constraint, text: refusal.to_string() };
                // It may well do where it is no phase.
                if self.grid.is_none() {
                    let (label, of) = (self.label(i), self.all.len() as u32);
                    self.cache.refuse(Some(self.group), &label, [1, of], reason.clone())?;
                }
                Ok(Outcome::Failed(reason))
            }
        }
    }

    /// Time that was spent of the budget.
    pub(super) fn spent(&self) -> Duration {
        self.cache.spent()
    }

    /// The configurations of a variant.
    pub(super) fn of_variant(&self, path: &str) -> impl Iterator<Item = usize> + use<'_, 'a, 'm, 'l> {
        let path = path.to_owned();
        self.all.iter().enumerate().filter(move |(_, c)| **c.variant.path() == *path).map(|(i, _)| i)
    }

    /// What is wrong with the files of a variant, if anything.
    pub(super) fn broken_variant(&self, path: &str) -> Option<&TextError> {
        self.broken.iter().find(|(variant, _)| **variant.path() == *path).map(|(_, error)| error)
    }

    /// A candidate for people.
    pub(super) fn label(&self, i: usize) -> String {
        self.all[i].variant.label(&self.all[i].config)
    }

    /// Whether the candidate beats the incumbent in interleaved pairs; `None` if one of them fails.
    pub(super) fn is_faster(
        &mut self,
        incumbent: usize,
        candidate: usize,
        held_out: bool,
    ) -> Result<Option<bool>, KernelTuningError> {
        let made = [self.kernel(incumbent)?, self.kernel(candidate)?];
        let [Made::Kernel(a), Made::Kernel(b)] = made else { return Ok(None) };
        match self.cache.kernels(self.group, [a, b], held_out) {
            Err(TrialError::Failed(_)) => Ok(None),
            compared => Ok(Some(compared?.verdict == Verdict::Fast)),
        }
    }

    pub(super) fn choice(&self, i: usize) -> Result<Choice, KernelTuningError> {
        let c = &self.all[i];
        Ok(Choice::new(self.group.key.clone(), c.variant, &c.config)?)
    }
}

/// Configurations with their times, the fastest first; within [`NOISE`] of the fastest, those that change no bit first,
/// then by number.
fn canonical(timed: &[(usize, f64)], changes_nothing: &dyn Fn(usize) -> bool) -> Vec<usize> {
    let mut timed = timed.to_vec();
    timed.sort_by(|(i, a), (j, b)| a.total_cmp(b).then(i.cmp(j)));
    let bound = timed.first().map_or(0.0, |(_, ns)| ns * (1.0 + NOISE));
    let alike = timed.partition_point(|(_, ns)| *ns <= bound);
    timed[..alike].sort_by_key(|(i, _)| (!changes_nothing(*i), *i));
    timed.into_iter().map(|(i, _)| i).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_of_equal_speed_are_ordered_despite_noise() {
        let nothing = |_| false;
        assert_eq!(canonical(&[], &nothing), Vec::<usize>::new());
        assert_eq!(canonical(&[(5, 100.0), (2, 100.9), (9, 101.1), (1, 150.0)], &nothing), [2, 5, 9, 1]);
        assert_eq!(canonical(&[(2, 100.0), (5, 100.9), (1, 150.0), (9, 101.1)], &nothing), [2, 5, 9, 1]);
        // One that changes no bit is not chosen for that where it is slower.
        let same_bits = |i| i == 5 || i == 9;
        assert_eq!(canonical(&[(2, 100.0), (5, 100.9), (9, 101.1), (1, 99.95)], &same_bits), [5, 1, 2, 9]);
    }
}
