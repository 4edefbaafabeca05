//! The candidates for one kind of instance: tried in an order, each measured once and recorded.

use super::timing::{measure, pairs};
use super::tuner::{KernelTuner, KernelTuningError, PersistentGrid};
use crate::ledger::{Cause, Identity, Outcome, Subject};
use crate::memo::Memo;
use crate::space::{BrokenVariant, Configuration, InstanceGroup, configurations, one_tunable_away};
use crate::stats::summary::median;
use crate::stats::verdict::{Criteria, Verdict, compare};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Instant;
use wgoose_kernels::persistent::can_be_stage;
use wgoose_kernels::plan::{Choice, default_kernel};
use wgoose_kernels::{Kernel, KernelError, Refusal, TextError, Variant};
use wgoose_runtime::RuntimeError;
use wgoose_runtime::lab::{Case, Expected};

/// What a configuration makes.
enum Made {
    Kernel(Kernel),
    Refused(Refusal),
}

/// The candidates of one group.
pub(super) struct Candidates<'a, 'm> {
    tuner: &'a KernelTuner<'a>,
    group: &'a InstanceGroup,
    memo: &'m mut Memo,
    all: Vec<Configuration<'a>>,
    /// Variants that failed for good.
    broken: Vec<BrokenVariant<'a>>,
    pub(super) default: usize,
    /// Operands, and what the reference makes of them; made when they are first needed.
    case: Option<(Case, Expected)>,
    comparisons: u32,
    pub(super) tried: usize,
    /// Median nanoseconds of those that were measured or recalled.
    timed: Vec<(usize, f64)>,
    /// What they must suit, if they are to be stages.
    grid: Option<PersistentGrid>,
}

impl<'a, 'm> Candidates<'a, 'm> {
    pub(super) fn new(
        tuner: &'a KernelTuner<'a>,
        group: &'a InstanceGroup,
        memo: &'m mut Memo,
    ) -> Result<Self, KernelTuningError> {
        let limits = tuner.device.limits();
        let (all, broken) = configurations(&group.instance, limits, tuner.scope, tuner.catalogue);
        let (variant, config, _) = default_kernel(&group.instance, tuner.scope.allowed, limits, tuner.catalogue)?;
        let is_default = |c: &Configuration<'_>| c.variant.path() == variant.path() && c.config == config;
        let default = all.iter().position(is_default).unwrap_or(0);
        let (case, grid) = (None, None);
        let mut candidates = Candidates {
            tuner,
            group,
            memo,
            all,
            broken,
            default,
            case,
            comparisons: 0,
            tried: 0,
            timed: Vec::new(),
            grid,
        };
        for (variant, error) in candidates.broken.clone() {
            candidates.record_broken(variant, &error)?;
        }
        Ok(candidates)
    }

    /// Those that may be stages, the likeliest first: of a fixed grid, of the least precise arithmetic that is allowed, wide,
    /// and near their defaults otherwise.
    pub(super) fn of_stage(
        tuner: &'a KernelTuner<'a>,
        group: &'a InstanceGroup,
        memo: &'m mut Memo,
        grid: PersistentGrid,
    ) -> Result<Self, KernelTuningError> {
        let mut candidates = Candidates::new(tuner, group, memo)?;
        let limits = tuner.device.limits();
        candidates.all.retain(|c| grid.admits(c.variant, &c.config, limits));
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

    /// The best configuration found until `deadline`, and its median nanoseconds, beginning with what is known.
    pub(super) fn descend(
        &mut self,
        known: Option<(usize, f64)>,
        deadline: Instant,
    ) -> Result<Option<(usize, f64)>, KernelTuningError> {
        if self.tuner.scope.exhaustive {
            let mut best = known;
            self.try_all((0..self.all.len()).collect(), &mut best, None)?;
            return Ok(best);
        }
        let first = self.first_of_each_variant()?;
        self.descend_from(first, known, deadline)
    }

    /// As [`Candidates::descend`], from some configurations on.
    pub(super) fn descend_from(
        &mut self,
        first: Vec<usize>,
        mut best: Option<(usize, f64)>,
        deadline: Instant,
    ) -> Result<Option<(usize, f64)>, KernelTuningError> {
        self.try_all(first, &mut best, Some(deadline))?;
        while let Some((from, _)) = best.filter(|_| Instant::now() < deadline) {
            let near = one_tunable_away(&self.all, &self.all[from]).collect();
            self.try_all(near, &mut best, Some(deadline))?;
            if best.is_some_and(|(now, _)| now == from) {
                break;
            }
        }
        Ok(best)
    }

    /// Measures configurations; what is known is enough once the deadline has passed.
    fn try_all(
        &mut self,
        configurations: Vec<usize>,
        best: &mut Option<(usize, f64)>,
        deadline: Option<Instant>,
    ) -> Result<(), KernelTuningError> {
        for i in configurations {
            if best.is_some() && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            if let Some(ns) = self.measure(i)?.filter(|ns| best.is_none_or(|(_, least)| *ns < least)) {
                *best = Some((i, ns));
            }
        }
        Ok(())
    }

    /// One record per variant and reason, with the number of configurations refused.
    pub(super) fn record_refusals(&mut self) -> Result<(), KernelTuningError> {
        let mut reasons: BTreeMap<(&str, String), usize> = BTreeMap::new();
        for c in &self.all {
            if let Some(refusal) = &c.refusal {
                *reasons.entry((c.variant.name(), refusal.to_string())).or_default() += 1;
            }
        }
        for ((variant, reason), count) in reasons {
            let mut subject = self.subject(variant, "", BTreeMap::new());
            subject.tunables.insert("refused".into(), reason.clone());
            let identity = self.memo.identity(subject, None, 0, self.tuner.clock.source());
            let text = format!("{count} of {} configurations: {reason}", self.all.len());
            self.record_once(&identity, Cause::Constraint, text)?;
        }
        Ok(())
    }

    /// Records a variant whose files are wrong.
    fn record_broken(&mut self, variant: &Variant, error: &TextError) -> Result<(), KernelTuningError> {
        let mut subject = self.subject(variant.name(), "", BTreeMap::new());
        subject.tunables.insert("broken".into(), error.to_string());
        let identity = self.memo.identity(subject, None, 0, self.tuner.clock.source());
        self.record_once(&identity, Cause::Compile, error.to_string())
    }

    fn record_once(&mut self, identity: &Identity, cause: Cause, text: String) -> Result<(), KernelTuningError> {
        if self.memo.recall(&identity.key()).is_none() {
            self.memo.append(identity, Outcome::failed(cause, text))?;
        }
        Ok(())
    }

    fn subject(&self, variant: &str, hash: &str, tunables: BTreeMap<String, String>) -> Subject {
        let (instance, key) = (&self.group.instance, &self.group.key);
        let sizes = [("rows", instance.rows), ("k", instance.k), ("m", instance.m), ("up_to_rows", key.up_to_rows)];
        Subject {
            op: key.op.clone(),
            variant: variant.to_owned(),
            tunables,
            shape: sizes.into_iter().map(|(name, n)| (name.to_owned(), u64::from(n))).collect(),
            format: key.formats.first().copied(),
            kernel_hash: hash.to_owned(),
        }
    }

    /// The kernel of a configuration, or why there is none. Once a variant's text is wrong, it has none at all.
    fn kernel(&mut self, i: usize) -> Result<Made, KernelTuningError> {
        let Configuration { variant, config, .. } = self.all[i].clone();
        if self.broken.iter().any(|(other, _)| other.path() == variant.path()) {
            return Ok(Made::Refused(Refusal::None("the variant's text is wrong")));
        }
        match Kernel::new(variant, &self.group.instance, &config, self.tuner.device.limits()) {
            Err(KernelError::Text(error)) => {
                self.record_broken(variant, &error)?;
                self.broken.push((variant, error));
                Ok(Made::Refused(Refusal::None("the variant's text is wrong")))
            }
            Err(KernelError::Refused(refusal)) => Ok(Made::Refused(refusal)),
            Ok(kernel) => Ok(match self.grid {
                Some(grid) if !can_be_stage(&kernel, grid.threads) => {
                    Made::Refused(Refusal::Stage("its workgroups are of another size"))
                }
                _ => Made::Kernel(kernel),
            }),
        }
    }

    fn case(&mut self) -> &(Case, Expected) {
        self.case.get_or_insert_with(|| {
            let case = Case::random(&self.group.instance, 0);
            let expected = Expected::of(&case);
            (case, expected)
        })
    }

    /// Median nanoseconds of a candidate; `None` if it is refused, fails or is wrong.
    pub(super) fn measure(&mut self, i: usize) -> Result<Option<f64>, KernelTuningError> {
        let ns = median(self.outcome(i)?.samples_ns());
        if let Some(ns) = ns.filter(|_| self.timed.iter().all(|(known, _)| *known != i)) {
            self.timed.push((i, ns));
        }
        Ok(ns)
    }

    /// Those that were timed, the fastest first.
    pub(super) fn ranked(&self) -> Vec<usize> {
        let mut timed = self.timed.clone();
        timed.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        timed.into_iter().map(|(i, _)| i).collect()
    }

    /// What came of a candidate, measured now unless it was before.
    pub(super) fn outcome(&mut self, i: usize) -> Result<Outcome, KernelTuningError> {
        if let Some(refusal) = &self.all[i].refusal {
            return Ok(Outcome::failed(Cause::Constraint, refusal.to_string()));
        }
        let kernel = self.kernel(i)?;
        let c = &self.all[i];
        let tunables = c.variant.spell(&c.config);
        let kernel = match kernel {
            Made::Kernel(kernel) => kernel,
            // It may well do where it is no stage.
            Made::Refused(refusal) if self.grid.is_some() => {
                return Ok(Outcome::failed(Cause::Constraint, refusal.to_string()));
            }
            Made::Refused(refusal) => {
                let subject = self.subject(c.variant.name(), "", tunables);
                let identity = self.memo.identity(subject, None, 0, self.tuner.clock.source());
                self.record_once(&identity, Cause::Constraint, refusal.to_string())?;
                return Ok(Outcome::failed(Cause::Constraint, refusal.to_string()));
            }
        };
        self.tried += 1;
        let subject = self.subject(c.variant.name(), &kernel.hash.to_string(), tunables);
        let identity = self.memo.identity(subject, None, 0, self.tuner.clock.source());
        let is_new = self.memo.recall(&identity.key()).is_none();
        if is_new {
            self.case();
        }
        let (tuner, copies, case) = (self.tuner, self.tuner.copies(self.group), self.case.as_ref());
        let outcome = self.memo.experiment(&identity, || {
            let Some((case, expected)) = case else { return Outcome::failed(Cause::Runtime, "no reference".into()) };
            measure(tuner, &kernel, (case, copies), expected)
        })?;
        match &outcome {
            // Nothing can be measured on it any more. A sweep that goes on later knows, and leaves the candidate out.
            Outcome::Failed(reason) if is_new && matches!(reason.cause, Cause::DeviceLost | Cause::Timeout) => {
                let why = format!("{}: {}", kernel.label, reason.text);
                Err(RuntimeError::DeviceLost { during: "timing a kernel".to_owned(), why }.into())
            }
            _ => Ok(outcome),
        }
    }

    /// The configurations of a variant.
    pub(super) fn of_variant(&self, path: &str) -> impl Iterator<Item = usize> + use<'_, 'a, 'm> {
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

    /// Whether the candidate beats the incumbent in interleaved pairs.
    pub(super) fn is_faster(&mut self, incumbent: usize, candidate: usize) -> Result<bool, KernelTuningError> {
        self.comparisons += 1;
        let made = [self.kernel(incumbent)?, self.kernel(candidate)?];
        let [Made::Kernel(a), Made::Kernel(b)] = made else { return Ok(false) };
        let number = self.comparisons.to_string();
        let arm = |this: &Self, i: usize, own: &Kernel, other: &Kernel| {
            let c = &this.all[i];
            let mut tunables = c.variant.spell(&c.config);
            tunables.insert("comparison".into(), number.clone());
            tunables.insert("against".into(), other.hash.to_string());
            let subject = this.subject(c.variant.name(), &own.hash.to_string(), tunables);
            this.memo.identity(subject, None, 0, this.tuner.clock.source())
        };
        let (id_a, id_b) = (arm(self, incumbent, &a, &b), arm(self, candidate, &b, &a));
        let known = [&id_a, &id_b].map(|id| self.memo.recall(&id.key()).map(|o| o.samples_ns().to_vec()));
        let [samples_a, samples_b] = match known {
            [Some(a), Some(b)] => [a, b],
            _ => {
                let (tuner, copies) = (self.tuner, self.tuner.copies(self.group));
                let pair = pairs(tuner, &a, &b, (&self.case().0, copies))?;
                for (id, samples) in [&id_a, &id_b].into_iter().zip(&pair) {
                    self.memo.append(id, Outcome::Kernel { samples_ns: samples.clone(), gate: None })?;
                }
                pair
            }
        };
        let comparison = compare(&samples_a, &samples_b, &Criteria::kernel());
        Ok(comparison.is_ok_and(|c| c.verdict == Verdict::Fast))
    }

    pub(super) fn choice(&self, i: usize) -> Result<Choice, KernelTuningError> {
        let c = &self.all[i];
        Ok(Choice::new(self.group.key.clone(), c.variant, &c.config)?)
    }
}
