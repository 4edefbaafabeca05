//! The findings of an experiment in a ledger.

use crate::job::Job;
use crate::ledger::{
    ArmRecord, Arms, Cause, Gate, ImpossibleArm, Outcome, Reason, Record, Records, SessionRecord, Trial,
};
use crate::paired::{Effort, PairedResult};
use crate::result_cache::paired;
use crate::scenario::Scenario;
use crate::stats::{PairError, Verdict};

/// What was found when an experiment was run once.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Where and when.
    pub session: SessionRecord,
    /// What it is called.
    pub experiment: String,
    /// Content hash of its declaration, if it has one.
    pub declaration: Option<String>,
    /// The arms, the baseline first.
    pub found: Vec<Found>,
    /// Arms that the device cannot have.
    pub left_out: Vec<ImpossibleArm>,
    /// Whether it ran to its end: of one that was broken off nothing is to be concluded.
    pub is_whole: bool,
}

/// What was found of an arm.
#[derive(Clone, Debug)]
pub struct Found {
    /// The arm.
    pub arm: ArmRecord,
    /// Whether it is the baseline, by another name: what differs is noise.
    pub is_baseline: bool,
    /// How it compares with the reference, if it ran.
    pub gate: Option<Gate>,
    /// Why it was not timed at all.
    pub refused: Option<Reason>,
    /// Why the persistent kernel that its plan asks for did not run: it was then not timed in decoding.
    pub fell_back: Option<Reason>,
    /// The scenarios in which it was timed beside the baseline.
    pub timed: Vec<Timed>,
    /// Those in which it, or the baseline, failed.
    pub failed: Vec<(Scenario, Reason)>,
}

/// An arm beside the baseline in a scenario.
#[derive(Clone, Debug)]
pub struct Timed {
    /// What was timed.
    pub scenario: Scenario,
    /// The verdict; the baseline is the incumbent. What was faster or slower at first is so here if samples that were
    /// held out said the same, whose figures these are.
    pub result: PairedResult,
    /// Whether samples that were held out contradict those before them: the verdict is then ambiguous, whatever the
    /// interval.
    pub is_contradicted: bool,
    /// Whether no other samples are to come: what is faster or slower was seen twice.
    pub is_settled: bool,
    /// Nanoseconds of a step, or of the reading of the prompt: of the baseline and of the arm, in pairs.
    pub samples_ns: [Vec<f64>; 2],
}

/// Why an arm with that outcome at the gate is refused.
pub(super) fn refusal(outcome: &Outcome) -> Option<Reason> {
    match outcome {
        Outcome::Gate(gate) if gate.passed => None,
        Outcome::Gate(gate) => Some(Reason { cause: Cause::WrongResult, text: gate.detail.clone() }),
        Outcome::Failed(reason) => Some(reason.clone()),
        _ => Some(Reason { cause: Cause::Runtime, text: "the gate was broken off".to_owned() }),
    }
}

/// What the samples of a comparison say.
fn judged(samples_ns: &[Vec<f64>; 2]) -> Result<PairedResult, PairError> {
    paired(samples_ns, &Effort::none().criteria())
}

/// Whether samples that are held out have to say the same: one comparison of equals in twenty is called a win where
/// times are noisy, two in a row of one direction are not one in hundreds.
pub(super) fn needs_another_look(outcome: &Outcome) -> bool {
    let Outcome::Pair { samples_ns, .. } = outcome else { return false };
    judged(samples_ns).is_ok_and(|result| matches!(result.comparison.verdict, Verdict::Fast | Verdict::Slow))
}

impl Findings {
    /// Every time that an experiment was run, the oldest first.
    pub fn all(records: &Records) -> Vec<Findings> {
        let runs = records.as_slice().iter().filter_map(|entry| match &entry.record {
            Record::Experiment(arms) => Some(arms),
            _ => None,
        });
        runs.filter_map(|arms| Findings::of(records, arms)).collect()
    }

    /// The time that has this session.
    pub(super) fn of_session(records: &Records, session: Option<&str>) -> Option<Findings> {
        records.as_slice().iter().rev().find_map(|entry| match &entry.record {
            Record::Experiment(arms) if Some(arms.session.as_str()) == session => Findings::of(records, arms),
            _ => None,
        })
    }

    /// `None` where its session is missing.
    fn of(records: &Records, arms: &Arms) -> Option<Findings> {
        let session = records.as_slice().iter().find_map(|entry| match &entry.record {
            Record::Session(session) if entry.id == arms.session => Some(session.clone()),
            _ => None,
        })?;
        let is_own = |trial: &&Trial| trial.session.as_ref() == Some(&arms.session) && trial.outcome.is_known();
        let trials: Vec<&Trial> = records.trials().map(|(_, trial)| trial).filter(is_own).collect();
        let of_baseline = arms.arms.first().map(|arm| &arm.id);
        let found = arms.arms.iter().enumerate().map(|(i, arm)| {
            let is_baseline = i > 0 && Some(&arm.id) == of_baseline;
            Found::of(arm, is_baseline, i == 0, &trials)
        });
        let found: Vec<Found> = found.collect();
        let (experiment, declaration) = (arms.experiment.clone(), arms.declaration.clone());
        let is_whole = match &found[..] {
            [baseline, others @ ..] => others.iter().all(|found| found.is_done(baseline, &arms.workload)),
            [] => false,
        };
        Some(Findings { session, experiment, declaration, found, left_out: arms.left_out.clone(), is_whole })
    }

    /// What was timed of any arm, in the order of the workload.
    pub fn scenarios(&self) -> Vec<Scenario> {
        let mut all = Vec::new();
        for found in &self.found {
            let failed = found.failed.iter().map(|(scenario, _)| *scenario);
            for scenario in found.timed.iter().map(|timed| timed.scenario).chain(failed) {
                if !all.contains(&scenario) {
                    all.push(scenario);
                }
            }
        }
        all.sort();
        all
    }
}

impl Found {
    fn of(arm: &ArmRecord, is_baseline: bool, is_first: bool, trials: &[&Trial]) -> Found {
        let mut found = Found {
            arm: arm.clone(),
            is_baseline,
            gate: None,
            refused: None,
            fell_back: None,
            timed: Vec::new(),
            failed: Vec::new(),
        };
        for trial in trials {
            match (&trial.identity.tried, &trial.outcome) {
                (Job::Gate { plan, .. }, outcome) if *plan == arm.id => {
                    found.refused = refusal(outcome);
                    if let Outcome::Gate(gate) = outcome {
                        found.gate = Some(gate.clone());
                    }
                }
                (Job::Resident { plan }, Outcome::Failed(reason)) if *plan == arm.id => {
                    found.fell_back = Some(reason.clone());
                }
                (Job::Steps { plans: [_, plan], scenario, .. }, outcome) if *plan == arm.id && !is_first => {
                    found.learn(*scenario, outcome);
                }
                _ => {}
            }
        }
        found
    }

    /// Whether nothing more is to be measured of it.
    fn is_done(&self, baseline: &Found, workload: &[Scenario]) -> bool {
        let fell_back = self.fell_back.is_some() || baseline.fell_back.is_some();
        let is_timed = |scenario: &Scenario| self.timed.iter().any(|t| t.scenario == *scenario && t.is_settled);
        let has_failed = |scenario: &Scenario| self.failed.iter().any(|(failed, _)| failed == scenario);
        let is_over = |scenario: &Scenario| {
            is_timed(scenario) || has_failed(scenario) || (*scenario == Scenario::DECODE && fell_back)
        };
        self.refused.is_some() || workload.iter().all(is_over)
    }

    fn learn(&mut self, scenario: Scenario, outcome: &Outcome) {
        let failed = match outcome {
            Outcome::Pair { samples_ns, .. } => match judged(samples_ns) {
                Ok(mut result) => {
                    let before = self.timed.iter().position(|timed| timed.scenario == scenario);
                    let first = before.map(|i| self.timed.remove(i).result.comparison.verdict);
                    let is_contradicted = first.is_some_and(|first| first != result.comparison.verdict);
                    if is_contradicted {
                        result.comparison.verdict = Verdict::Ambiguous;
                    }
                    let is_settled = first.is_some() || !needs_another_look(outcome);
                    let samples_ns = samples_ns.clone();
                    self.timed.push(Timed { scenario, result, is_contradicted, is_settled, samples_ns });
                    return;
                }
                Err(error) => Reason { cause: Cause::Runtime, text: error.to_string() },
            },
            Outcome::Failed(reason) => reason.clone(),
            _ => return,
        };
        self.failed.push((scenario, failed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Drive;
    use crate::job::PlanId;
    use wgoose_kernels::Precision;

    fn pair(ratio: f64) -> Outcome {
        let of = |factor: f64| (0..12).map(|i| factor * (100.0 + f64::from(i % 3) / 10.0)).collect();
        Outcome::Pair { samples_ns: [of(1.0), of(1.0 / ratio)], repeats: 1, copies: 0 }
    }

    fn found(outcomes: &[Outcome]) -> Found {
        let arm = ArmRecord {
            name: "a".into(),
            id: PlanId("1".into()),
            plan: PlanId("1".into()),
            model: "m".into(),
            file: "m.gguf".into(),
            precision: Precision::F32,
            persistent: false,
            drive: Drive::default(),
        };
        let mut found = Found::of(&arm, false, false, &[]);
        outcomes.iter().for_each(|outcome| found.learn(Scenario::DECODE, outcome));
        found
    }

    #[test]
    fn a_winning_arm_must_win_twice() {
        let verdict = |ratios: &[f64]| {
            let found = found(&ratios.iter().map(|ratio| pair(*ratio)).collect::<Vec<_>>());
            assert_eq!(found.timed.len(), 1);
            (found.timed[0].result.comparison.verdict, found.timed[0].result.comparison.log_ratio.exp())
        };
        let is = |(verdict, gain): (Verdict, f64), want: Verdict, of: f64| {
            assert!(verdict == want && (gain - of).abs() < 1e-3, "{verdict}, {gain}");
        };
        is(verdict(&[1.0]), Verdict::Same, 1.0);
        is(verdict(&[1.2, 1.1]), Verdict::Fast, 1.1);
        is(verdict(&[1.2, 1.0]), Verdict::Ambiguous, 1.0);
        is(verdict(&[0.8, 1.2]), Verdict::Ambiguous, 1.2);
        assert!([1.2, 0.8].map(pair).iter().all(needs_another_look) && !needs_another_look(&pair(1.0)));
    }

    #[test]
    fn an_interrupted_arm_is_not_done() {
        let workload = [Scenario::DECODE, Scenario::prefill(9)];
        let baseline = found(&[]);
        let is_done = |outcomes: &[Outcome], and: &dyn Fn(&mut Found)| {
            let mut found = found(outcomes);
            and(&mut found);
            found.is_done(&baseline, &workload)
        };
        let prompt = |found: &mut Found| found.learn(workload[1], &pair(1.0));
        assert!(!is_done(&[], &|_| ()) && !is_done(&[pair(1.0)], &|_| ()), "a prompt is missing");
        assert!(is_done(&[pair(1.0)], &prompt) && !is_done(&[], &prompt));
        assert!(!is_done(&[pair(1.2)], &prompt) && is_done(&[pair(1.2), pair(1.2)], &prompt), "the second look");
        let reason = || Reason { cause: Cause::NotResident, text: String::new() };
        assert!(is_done(&[], &|found| found.refused = Some(reason())));
        let fell_back = |found: &mut Found| {
            prompt(found);
            found.fell_back = Some(reason());
        };
        assert!(is_done(&[], &fell_back));
    }

    #[test]
    fn a_comparison_that_fails_is_kept_with_its_reason() {
        let found = found(&[Outcome::failed(Cause::NotResident, "too few workgroups".into())]);
        assert!(found.timed.is_empty() && found.failed[0].1.cause == Cause::NotResident);
        let refused = refusal(&Outcome::failed(Cause::Compile, "line 3".into()));
        assert_eq!(refused.map(|reason| reason.cause), Some(Cause::Compile));
        assert!(refusal(&Outcome::Interrupted).is_some(), "what was not seen is not right");
    }
}
