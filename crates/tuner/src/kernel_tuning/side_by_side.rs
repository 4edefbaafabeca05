//! The variants of an op side by side at one kind of instance, without a ledger: what somebody who writes a kernel waits for.

use super::KernelTuner;
use super::candidates::failed;
use super::timing::measure;
use crate::ledger::{Cause, Outcome};
use crate::space::{Configuration, InstanceGroup, configurations, one_tunable_away};
use crate::stats::summary::Summary;
use std::time::Instant;
use wgoose_kernels::{Kernel, KernelError};
use wgoose_runtime::RuntimeError;
use wgoose_runtime::lab::{Case, Expected};

/// A variant at an instance.
#[derive(Clone, Debug)]
pub struct TimedVariant {
    /// The variant's name.
    pub variant: String,
    /// Its best configuration of those that were tried, as `variant NAME=value ...`.
    pub label: String,
    /// Configurations that were tried.
    pub tried: usize,
    /// Nanoseconds, or why there are none: it is refused, fails or is wrong.
    pub result: Result<Summary, String>,
}

impl KernelTuner<'_> {
    /// Times every variant of a group's op, the fastest first: each in the first configuration that makes a kernel, and the
    /// one named `tuned` also with one tunable at a time varied, for as long as that helps and `deadline` has not come.
    ///
    /// # Errors
    /// The device is lost.
    pub fn side_by_side(
        &self,
        group: &InstanceGroup,
        tuned: Option<&str>,
        deadline: Instant,
    ) -> Result<Vec<TimedVariant>, RuntimeError> {
        let (all, broken) = configurations(&group.instance, self.device.limits(), self.scope, self.catalogue);
        let case = Case::random(&group.instance, 0);
        let expected = Expected::of(&case);
        let operands = (&case, self.copies(group));
        let mut timed: Vec<TimedVariant> = Vec::new();
        for (variant, error) in broken {
            let name = variant.name().to_owned();
            timed.push(TimedVariant { label: name.clone(), variant: name, tried: 0, result: Err(error.to_string()) });
        }
        let mut rest = &all[..];
        while let Some(first) = rest.first() {
            let is_own = |c: &Configuration<'_>| c.variant.path() == first.variant.path();
            let (own, others) = rest.split_at(rest.iter().take_while(|c| is_own(c)).count());
            rest = others;
            timed.push(self.best_of(own, group, operands, &expected, |variant| {
                tuned == Some(variant) && Instant::now() < deadline
            })?);
        }
        let ns = |t: &TimedVariant| t.result.as_ref().map_or(f64::INFINITY, |summary| summary.median);
        timed.sort_by(|a, b| ns(a).total_cmp(&ns(b)));
        Ok(timed)
    }

    /// The configurations of one variant, from its first on, for as long as `go_on` says so.
    fn best_of(
        &self,
        all: &[Configuration<'_>],
        group: &InstanceGroup,
        operands: (&Case, usize),
        expected: &Expected,
        go_on: impl Fn(&str) -> bool,
    ) -> Result<TimedVariant, RuntimeError> {
        let name = all[0].variant.name();
        let mut timed =
            TimedVariant { variant: name.to_owned(), label: name.to_owned(), tried: 0, result: Err(String::new()) };
        let mut seen = vec![false; all.len()];
        let (mut best, mut next): (Option<usize>, Vec<usize>) = (None, (0..all.len()).collect());
        while !next.is_empty() {
            let from = best;
            for i in next {
                // The first that makes a kernel is enough, unless more are asked for.
                if seen[i] || (best.is_some() && (from.is_none() || !go_on(name))) {
                    continue;
                }
                seen[i] = true;
                let why = match self.samples_of(&all[i], group, operands, expected)? {
                    Outcome::Failed(reason) => reason.text,
                    outcome => {
                        timed.tried += 1;
                        let summary = Summary::of(outcome.samples_ns()).ok_or_else(|| "no samples".to_owned());
                        let is_better = match (&summary, &timed.result) {
                            (Ok(new), Ok(old)) => new.median < old.median,
                            (new, _) => new.is_ok(),
                        };
                        if is_better {
                            (timed.result, best) = (summary, Some(i));
                            timed.label = all[i].variant.label(&all[i].config);
                        }
                        continue;
                    }
                };
                if matches!(&timed.result, Err(known) if known.is_empty()) {
                    timed.result = Err(why);
                }
            }
            next = match best.filter(|_| best != from && go_on(name)) {
                Some(best) => one_tunable_away(all, &all[best]).collect(),
                None => Vec::new(),
            };
        }
        Ok(timed)
    }

    fn samples_of(
        &self,
        c: &Configuration<'_>,
        group: &InstanceGroup,
        operands: (&Case, usize),
        expected: &Expected,
    ) -> Result<Outcome, RuntimeError> {
        if let Some(refusal) = &c.refusal {
            return Ok(failed(Cause::Constraint, refusal.to_string()));
        }
        let kernel = match Kernel::new(c.variant, &group.instance, &c.config, self.device.limits()) {
            Ok(kernel) => kernel,
            Err(KernelError::Refused(refusal)) => return Ok(failed(Cause::Constraint, refusal.to_string())),
            Err(KernelError::Text(error)) => return Ok(failed(Cause::Compile, error.to_string())),
        };
        match measure(self, &kernel, operands, expected) {
            Outcome::Failed(reason) if reason.cause == Cause::DeviceLost => {
                let why = format!("{}: {}", kernel.label, reason.text);
                Err(RuntimeError::Lost { during: "timing a kernel", why })
            }
            outcome => Ok(outcome),
        }
    }
}
