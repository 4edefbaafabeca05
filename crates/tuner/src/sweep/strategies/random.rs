//! Random search, which any other must beat: forms of a step and kernels are drawn, each as likely as the next.

use crate::kernel_tuning::KernelTuner;
use crate::sweep::stages::{DrawnPlans, check_default};
use crate::sweep::strategy::{Found, Strategy};
use crate::sweep::trials::{COMPARISON, PROMISING, Trials};
use crate::sweep::{Candidate, SweepError};
use std::time::Duration;
use wgoose_measure::paired::Effort;

/// Draws in a row of which all that they take is known: there may be no others.
const MOST_KNOWN: usize = 100;

/// Random search.
#[derive(Debug)]
pub(super) struct Random;

impl Strategy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn find(&self, trials: &mut Trials<'_>, tuner: &KernelTuner<'_>) -> Result<Found, SweepError> {
        check_default(trials)?;
        let structure = trials.problem().default.clone();
        let mut plan = structure.clone();
        let mut draws = DrawnPlans::new(*tuner);
        let end = trials.end(|ends| ends.layouts);
        let (mut n, mut idle, mut before) = (0, 0, Duration::ZERO);
        while trials.spent() < end && idle < MOST_KNOWN {
            n += 1;
            idle = if trials.spent() > before { 0 } else { idle + 1 };
            before = trials.spent();
            let scenario = draws.scenario(trials.task());
            let drawn = draws.plan(trials, &plan, scenario)?;
            let Some(candidate) = drawn.filter(|drawn| drawn.hash() != plan.hash()) else { continue };
            let gain = trials.screened_gain([&plan, &candidate], scenario)?;
            if gain.is_some_and(|gain| gain > PROMISING) {
                let is_alike = (&candidate.interleave, &candidate.k_major) == (&plan.interleave, &plan.k_major);
                let scenarios = if is_alike { vec![scenario] } else { trials.options().objective.scenarios() };
                let name = Candidate::Change(format!("draw {n}"));
                trials.challenge(&mut plan, candidate, &scenarios, Effort::usual(COMPARISON), name)?;
            }
        }
        Ok(Found { structure, plan, alone: Vec::new(), without_op: Vec::new() })
    }
}
