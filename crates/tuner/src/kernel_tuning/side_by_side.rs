//! The variants of an op side by side at one kind of instance: each searched alike, then compared in interleaved pairs.

use super::candidates::Candidates;
use super::tuner::{KernelTuner, KernelTuningError};
use std::fmt;
use std::time::Duration;
use wgoose_kernels::Variant;
use wgoose_measure::ledger::{Cause, Outcome, Reason};
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::space::InstanceGroup;
use wgoose_measure::stats::Comparison;
use wgoose_measure::stats::summary::Summary;

/// A variant at an instance.
#[derive(Clone, Debug)]
pub struct TimedVariant {
    /// Its name among the variants of the op.
    pub name: String,
    /// Its best configuration of those that were tried, as `op/variant NAME=value ...`; its name if none ran.
    pub label: String,
    /// Configurations that were tried.
    pub tried: usize,
    /// The variant that makes the same kernels: the times are those of that one.
    pub copy_of: Option<String>,
    /// Nanoseconds, or why there are none: it is refused, fails or is wrong.
    pub result: Result<Summary, Reason>,
}

/// A variant beside another one, both in the best configuration that was found.
#[derive(Clone, Debug)]
pub struct VariantPair {
    /// The one that the verdict is about.
    pub candidate: String,
    /// The one that it is compared with.
    pub incumbent: String,
    /// What was found.
    pub beside: Beside,
}

/// How a kernel compares with another one.
#[derive(Clone, Debug)]
pub enum Beside {
    /// The texts of the two are the same.
    Identical,
    /// What interleaved pairs say.
    Compared(Comparison),
    /// Why they were not compared.
    Failed(Reason),
}

impl fmt::Display for Beside {
    /// `FAST x1.220 (1.190 to 1.250)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Beside::Identical => f.write_str("identical"),
            Beside::Failed(why) => write!(f, "not compared: {}", why.text),
            Beside::Compared(Comparison { verdict, log_ratio, interval, .. }) => {
                let [ratio, low, high] = [*log_ratio, interval.low, interval.high].map(f64::exp);
                write!(f, "{verdict} x{ratio:.3} ({low:.3} to {high:.3})")
            }
        }
    }
}

/// The variants of an op at one kind of instance.
#[derive(Clone, Debug)]
pub struct SideBySide {
    /// Every variant, the fastest first.
    pub timed: Vec<TimedVariant>,
    /// One variant beside every other one that runs.
    pub pairs: Vec<VariantPair>,
}

/// A variant that was searched, and the number of its best configuration.
struct Searched {
    timed: TimedVariant,
    best: Option<usize>,
}

impl KernelTuner<'_> {
    /// Times every variant of a group's op: each in the first configuration that makes a kernel, and with one tunable
    /// at a time varied for as long as that helps and its share of `budget`, the same for all variants, lasts. Then
    /// `subject`, or the variant that is tried first without a plan, is compared with every other one.
    ///
    /// # Errors
    /// The ledger or the device fails.
    pub fn side_by_side(
        &self,
        group: &InstanceGroup,
        cache: &mut ResultCache<'_>,
        subject: Option<&str>,
        budget: Duration,
    ) -> Result<SideBySide, KernelTuningError> {
        let mut candidates = Candidates::new(self, group, cache)?;
        let variants = self.catalogue.variants(&group.key.op);
        let original = |i: usize| variants[..i].iter().position(|other| variants[i].is_copy_of(other));
        let searches = (0..variants.len()).filter(|i| original(*i).is_none()).count();
        let share = budget / searches.max(1) as u32;
        let first = candidates.first_of_each_variant()?;
        let mut searched: Vec<Searched> = Vec::new();
        for (i, variant) in variants.iter().enumerate() {
            let of_variant = match original(i) {
                Some(original) => candidates.copied(variant, &searched[original].timed),
                None => candidates.searched(variant, &first, share)?,
            };
            searched.push(of_variant);
        }
        let pairs = candidates.paired(subject, &searched)?;
        let mut timed: Vec<TimedVariant> = searched.into_iter().map(|searched| searched.timed).collect();
        let ns = |t: &TimedVariant| t.result.as_ref().map_or(f64::INFINITY, |summary| summary.median);
        timed.sort_by(|a, b| ns(a).total_cmp(&ns(b)));
        Ok(SideBySide { timed, pairs })
    }
}

impl Candidates<'_, '_, '_> {
    /// A variant in the best configuration that is found in this time.
    fn searched(&mut self, variant: &Variant, first: &[usize], share: Duration) -> Result<Searched, KernelTuningError> {
        let own: Vec<usize> = self.of_variant(variant.path()).collect();
        let begin: Vec<usize> = first.iter().copied().filter(|i| own.contains(i)).collect();
        let before = self.tried;
        let until = self.spent() + share;
        let best = self.descend_from(&begin, None, until)?.map(|(best, _)| best);
        let tried = self.tried - before;
        let label = best.map_or_else(|| variant.name().to_owned(), |best| self.label(best));
        // Without a best one, the first says what is wrong.
        let result =
            match (self.broken_variant(variant.path()), best.or(begin.first().copied()).or(own.first().copied())) {
                (Some(error), _) => Err(Reason { cause: Cause::Compile, text: error.to_string() }),
                (None, None) => Err(Reason { cause: Cause::Constraint, text: "it has no configurations".to_owned() }),
                (None, Some(i)) => match self.outcome(i)? {
                    Outcome::Failed(reason) => Err(reason),
                    outcome => Summary::of(outcome.samples_ns())
                        .ok_or_else(|| Reason { cause: Cause::Runtime, text: "no samples".to_owned() }),
                },
            };
        let name = variant.name().to_owned();
        Ok(Searched { timed: TimedVariant { name, label, tried, copy_of: None, result }, best })
    }

    /// A variant that makes the kernels of one that was searched.
    fn copied(&self, variant: &Variant, original: &TimedVariant) -> Searched {
        let name = variant.name().to_owned();
        let label = original.label.replacen(&original.name, &name, 1);
        let copy_of = Some(original.name.clone());
        Searched { timed: TimedVariant { name, label, tried: 0, copy_of, ..original.clone() }, best: None }
    }

    /// The subject beside every other variant; without one, every other variant beside the first.
    fn paired(&mut self, subject: Option<&str>, searched: &[Searched]) -> Result<Vec<VariantPair>, KernelTuningError> {
        let is_subject = |searched: &&Searched| subject.is_none_or(|name| searched.timed.name == name);
        let runs = |searched: &&Searched| searched.timed.result.is_ok();
        let Some(one) = searched.iter().filter(runs).find(is_subject) else { return Ok(Vec::new()) };
        let original = |searched: &Searched| searched.timed.copy_of.clone().unwrap_or(searched.timed.name.clone());
        let best = |of: &Searched| searched.iter().find(|other| other.timed.name == original(of)).and_then(|o| o.best);
        let mut pairs = Vec::new();
        for other in searched.iter().filter(runs).filter(|other| other.timed.name != one.timed.name) {
            let [incumbent, candidate] = if subject.is_some() { [other, one] } else { [one, other] };
            let beside = match (best(incumbent), best(candidate)) {
                _ if original(incumbent) == original(candidate) => Beside::Identical,
                (Some(incumbent), Some(candidate)) => self.beside(incumbent, candidate)?,
                _ => continue,
            };
            let [incumbent, candidate] = [incumbent, candidate].map(|searched| searched.timed.name.clone());
            pairs.push(VariantPair { candidate, incumbent, beside });
        }
        Ok(pairs)
    }
}
