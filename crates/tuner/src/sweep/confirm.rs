//! The end of a sweep: what won, together, against the default plan.

use super::{Candidate, Stage, Step, Sweep, SweepError, Timed, ends};
use crate::ledger::Gate;
use crate::paired::Effort;
use crate::scenario::Scenario;
use wgoose_kernels::plan::{Evidence, Fusions, ScenarioEvidence};
use wgoose_kernels::{Plan, bucket};

impl Sweep<'_> {
    /// The assembled plan against the default; kernels that do not pay in the step are dropped, and then decoding has the
    /// structure that won with default kernels. What then fails the gate, or is slower than the default in anything, is no plan.
    pub(super) fn confirm(&mut self, structure: &Plan, mut plan: Plan) -> Result<Plan, SweepError> {
        let scenarios = self.scenarios();
        let prompt = self.prompts().last().copied();
        let several = self.options.sequences.map(Scenario::batch);
        let tuned: Vec<Scenario> = [Some(Scenario::DECODE), prompt, several].into_iter().flatten().collect();
        self.begin(Stage::Confirm, tuned.len() + scenarios.len())?;
        let effort = Effort::usual(self.left(ends::CONFIRM) / (2 * tuned.len() + scenarios.len()) as u32);
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
            self.challenge(&mut incumbent, plan, &[scenario], effort, Candidate::Kernels(scenario))?;
            plan = incumbent;
        }
        // What reads prompts may be what fails; then decoding has all that won for it.
        let one_row = bucket(1);
        let decode = Plan {
            prefill_chunk: self.default.prefill_chunk,
            fusions: Fusions { prefill: self.default.fusions.prefill.clone(), ..plan.fusions.clone() },
            choices: plan.choices.iter().filter(|c| c.key.up_to_rows == one_row).cloned().collect(),
            ..plan.clone()
        };
        let mut candidates =
            vec![(plan, Candidate::Winners), (decode, Candidate::Decode), (structure.clone(), Candidate::Structure)];
        candidates.dedup_by_key(|(plan, _)| plan.hash());
        for (plan, candidate) in candidates {
            if plan.hash() != self.default.hash()
                && let Some(plan) = self.qualify(plan, candidate, &scenarios, effort)?
            {
                return Ok(plan);
            }
        }
        // A comparison of the default with itself would say nothing, and its arms could not be told apart in the ledger.
        self.done(Step::NothingFaster)?;
        let default = self.default.clone();
        let gate = self.memo.gate(&default)?.map_err(|reason| SweepError::Gate(reason.to_string()))?;
        Ok(self.with_evidence(default, gate, Vec::new()))
    }

    /// The plan with its evidence, if it passes the gate and is slower than the default in nothing.
    fn qualify(
        &mut self,
        plan: Plan,
        candidate: Candidate,
        scenarios: &[Scenario],
        effort: Effort,
    ) -> Result<Option<Plan>, SweepError> {
        let gate = match self.memo.gate(&plan)? {
            Ok(gate) if gate.passed => gate,
            Ok(gate) => {
                self.done(Step::Wrong { candidate, detail: gate.detail })?;
                return Ok(None);
            }
            Err(reason) => {
                self.done(Step::NotRun { candidate, why: reason.to_string() })?;
                return Ok(None);
            }
        };
        let mut evidence = Vec::new();
        for scenario in scenarios.iter().copied() {
            let pair = [&self.default, &plan];
            let result = match self.memo.steps(pair, scenario, true, effort)? {
                Ok(result) => result,
                Err(reason) => {
                    self.done(Step::NotRun { candidate, why: reason.to_string() })?;
                    return Ok(None);
                }
            };
            let (verdict, interval) = (result.comparison.verdict, result.comparison.interval);
            self.done(Step::Tuned(Timed { scenario, result: result.clone(), verdict }))?;
            if result.is_surely_slower() {
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
            model: self.problem.model.clone(),
            quality_hash: gate.quality_hash.unwrap_or_default(),
            certified: self.problem.certified,
            rms_error: gate.rms,
            scenarios,
            ledger: self.options.ledger.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        };
        Plan { evidence: Some(evidence), ..plan }
    }
}
