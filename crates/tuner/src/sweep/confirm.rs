//! The end of a sweep: what won, together, against the default plan.

use super::{Candidate, Stage, Step, Sweep, SweepError, Timed, ends};
use crate::ledger::Gate;
use crate::paired::{PairedError, Scenario};
use std::time::Duration;
use wgoose_kernels::plan::{Evidence, ScenarioEvidence};
use wgoose_kernels::{Plan, bucket};

/// A plan that is surely slower than the default by this share in anything takes nothing's place.
const MOST_SLOWER: f64 = 0.01;

impl Sweep<'_> {
    /// The assembled plan against the default; kernels that do not pay in the step are dropped, and then decoding has the
    /// structure that won with default kernels. What then fails the gate, or is slower than the default in anything, is no plan.
    pub(super) fn confirm(&mut self, structure: &Plan, mut plan: Plan) -> Result<Plan, SweepError> {
        let scenarios = self.scenarios();
        let prompt = self.prompts().last().copied();
        let several = self.options.sequences.map(Scenario::batch);
        let tuned: Vec<Scenario> = [Some(Scenario::DECODE), prompt, several].into_iter().flatten().collect();
        self.begin(Stage::Confirm, tuned.len() + scenarios.len())?;
        let allowance = self.left(ends::CONFIRM) / (2 * tuned.len() + scenarios.len()) as u32;
        for scenario in tuned {
            let rows = match scenario.tokens {
                1 => bucket(scenario.sequences),
                _ => bucket(plan.prefill_chunk),
            };
            let mut bare = Plan {
                choices: plan.choices.iter().filter(|c| c.key.up_to_rows != rows).cloned().collect(),
                ..plan.clone()
            };
            if scenario == Scenario::DECODE {
                bare.fusions.decode.clone_from(&structure.fusions.decode);
                bare.persistent = None;
            }
            if bare.choices.len() == plan.choices.len() {
                self.done(Step::Untuned(scenario))?;
                continue;
            }
            let mut incumbent = bare;
            self.challenge(&mut incumbent, plan, &[scenario], allowance, Candidate::Kernels(scenario))?;
            plan = incumbent;
        }
        for (plan, candidate) in [(plan, Candidate::Winners), (structure.clone(), Candidate::Structure)] {
            if plan.hash() != self.default.hash()
                && let Some(plan) = self.qualify(plan, candidate, &scenarios, allowance)?
            {
                return Ok(plan);
            }
        }
        // A comparison of the default with itself would say nothing, and its arms could not be told apart in the ledger.
        self.done(Step::NothingFaster)?;
        let default = self.default.clone();
        let gate = self.lab.gate(&mut self.memo, &default)?;
        Ok(self.with_evidence(default, gate, Vec::new()))
    }

    /// The plan with its evidence, if it passes the gate and is slower than the default in nothing.
    fn qualify(
        &mut self,
        plan: Plan,
        candidate: Candidate,
        scenarios: &[Scenario],
        allowance: Duration,
    ) -> Result<Option<Plan>, SweepError> {
        let gate = self.lab.gate(&mut self.memo, &plan)?;
        if !gate.passed {
            self.done(Step::Wrong { candidate, detail: gate.detail })?;
            return Ok(None);
        }
        let mut evidence = Vec::new();
        for scenario in scenarios.iter().copied() {
            let pair = [&self.default, &plan];
            let result = match self.lab.compare(&mut self.memo, pair, scenario, true, allowance) {
                Err(PairedError::NotPersistent(why)) => {
                    self.done(Step::NotRun { candidate, why })?;
                    return Ok(None);
                }
                result => result?,
            };
            let (verdict, interval) = (result.comparison.verdict, result.comparison.interval);
            self.done(Step::Tuned(Timed { scenario, result: result.clone(), verdict }))?;
            if interval.high < -MOST_SLOWER.ln_1p() {
                return Ok(None);
            }
            evidence.push(ScenarioEvidence {
                scenario: scenario.name().to_owned(),
                tokens: scenario.tokens * scenario.sequences,
                default_us: result.incumbent_ns / 1e3,
                tuned_us: result.candidate_ns / 1e3,
                speedup: (interval.low.exp(), interval.high.exp()),
                pairs: result.comparison.pairs as u32,
            });
        }
        Ok(Some(self.with_evidence(plan, gate, evidence)))
    }

    fn with_evidence(&self, plan: Plan, gate: Gate, scenarios: Vec<ScenarioEvidence>) -> Plan {
        let evidence = Evidence {
            model: self.lab.model.to_owned(),
            quality_hash: gate.quality_hash.unwrap_or_default(),
            certified: self.lab.reference.certified(),
            rms_error: gate.rms,
            scenarios,
            ledger: self.options.ledger.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        };
        Plan { evidence: Some(evidence), ..plan }
    }
}
