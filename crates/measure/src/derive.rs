//! From a ledger to a plan: a pure function, so that a plan can be derived again anywhere, under other rules, without a
//! device.
//!
//! A plan qualifies if it passed the gate and its comparisons with the default show it faster in at least one scenario
//! of a running process and slower in none. A scenario that it runs as the default does need not be compared, and
//! samples of another plan that runs a scenario in the same way hold for it. Among the plans that qualify, the best for
//! the objective is derived; of several within the noise of the best, the plan with the fewest choices, then the
//! smallest id, so that two tunings of one machine often give the same plan. If none qualifies, the plan is put
//! together from kernels that beat their defaults, and missing measurements are named.

use crate::job::{Configured, Job, PlanId, SiteId};
use crate::ledger::{Alike, Decision, Gate, Outcome, Record, Records, SessionRecord, Trial};
use crate::objective::Objective;
use crate::paired::{Effort, PairedResult};
use crate::result_cache::{paired, pool};
use crate::scenario::Scenario;
use crate::stats::verdict::{Criteria, Verdict, compare};
use std::collections::{BTreeMap, BTreeSet};
use wgoose_kernels::plan::{Choice, Evidence, ScenarioEvidence};
use wgoose_kernels::{Catalogue, Feature, Plan, PlanError, Precision};

/// Differences of the weighted gain that are noise: half a per cent.
const NOISE: f64 = 0.005;

/// What a plan may contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The least precise arithmetic of its kernels.
    pub allowed: Precision,
    /// Features that it does without.
    pub without: BTreeSet<Feature>,
}

impl Policy {
    /// All that was measured.
    pub fn all() -> Self {
        Policy { allowed: Precision::Q8, without: BTreeSet::new() }
    }
}

/// A plan, and why it is that one.
#[derive(Clone, Debug)]
pub struct Derived {
    /// The plan, with evidence if it was compared as a whole.
    pub plan: Plan,
    /// How it does against the default in each scenario of the objective; empty where it was not compared as a whole.
    pub gains: Vec<Gain>,
    /// Why, line by line.
    pub decisions: Vec<String>,
    /// What was not measured, or is out of date.
    pub missing: Vec<String>,
}

/// A plan against the default in one scenario.
#[derive(Clone, Debug)]
pub struct Gain {
    /// What was timed.
    pub scenario: Scenario,
    /// How much it counts for the objective: all shares add up to 1, with those of prompts that were not compared
    /// because the default reads them by the same kernels.
    pub share: f64,
    /// What the comparison found; the default is the incumbent.
    pub result: PairedResult,
}

/// Why no plan can be derived.
#[derive(Debug, thiserror::Error)]
pub enum DeriveError {
    /// Nothing says for which device and model.
    #[error("it says of no sweep for which device and model it was: tune again")]
    NoSession,
    /// The contents of the default plan are missing.
    #[error("the default plan {0} is not in the ledger: a part of it is missing")]
    NoDefault(PlanId),
    /// The default plan under this policy.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// Derives the plan of the newest sweep's device and model.
///
/// # Errors
/// The records are of no sweep, or of a part of one.
pub fn derive(
    records: &Records,
    catalogue: &Catalogue,
    objective: &Objective,
    policy: &Policy,
) -> Result<Derived, DeriveError> {
    let known = Known::of(records, catalogue, policy)?;
    let mut derived =
        Derived { plan: known.default.clone(), gains: Vec::new(), decisions: Vec::new(), missing: Vec::new() };
    if known.others > 0 {
        derived.missing.push(format!("{} trials of other devices or models are left out", known.others));
    }
    let mut qualified: Vec<(f64, Plan, Vec<Gain>)> = Vec::new();
    for (id, plan) in &known.plans {
        if let Some((plan, gains)) = known.judge(id, plan, objective, &mut derived)? {
            qualified.push((overall(&gains), plan, gains));
        }
    }
    let best = qualified.iter().map(|(gain, ..)| *gain).fold(f64::NEG_INFINITY, f64::max);
    let among = qualified.into_iter().filter(|(gain, ..)| *gain > best - NOISE && *gain > 0.0);
    let canonical = among.min_by_key(|(_, plan, _)| (plan.choices.len(), plan.hash()));
    if let Some((gain, plan, gains)) = canonical {
        derived.decisions.push(format!("plan {}: x{:.3} for {}", plan.hash(), gain.exp(), objective.name));
        (derived.plan, derived.gains) = (plan, gains);
    } else if !known.compared {
        known.assemble(&mut derived);
    } else {
        derived.decisions.push("no plan was faster than the default and slower in nothing".to_owned());
    }
    Ok(derived)
}

/// The best plan of the newest sweep that passed the gate, if any but the default did: what can be used of a sweep that
/// was broken off. The gains of one that was not compared with the default in everything are not known.
///
/// # Errors
/// The default plan cannot be made under this policy.
pub fn best_so_far(
    records: &Records,
    catalogue: &Catalogue,
    objective: &Objective,
    policy: &Policy,
) -> Result<Option<Plan>, DeriveError> {
    let derived = match derive(records, catalogue, objective, policy) {
        // It had hardly begun.
        Err(DeriveError::NoSession | DeriveError::NoDefault(_)) => return Ok(None),
        derived => derived?,
    };
    if derived.plan.evidence.is_some() {
        return Ok(Some(derived.plan));
    }
    let known = Known::of(records, catalogue, policy)?;
    let of_device = |decision: &&Decision| known.plans.contains_key(&decision.best);
    let decisions = records.as_slice().iter().rev().filter_map(|entry| match &entry.record {
        Record::Decision(decision) => Some(decision),
        _ => None,
    });
    for Decision { best, .. } in decisions.filter(of_device) {
        let (Some(plan), Some(gate)) = (known.plans.get(best), known.gates.get(best)) else { continue };
        if gate.passed && *best != known.session.default && known.refusal(plan).is_none() {
            return Ok(Some(plan.clone().with_evidence(known.evidence(gate, Vec::new()))));
        }
    }
    Ok(None)
}

/// What samples weigh: what was seen to be so again, and in other processes, is what is said of a plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    First,
    HeldOut,
    Confirmed,
}

/// What is known of one device and model.
struct Known<'a> {
    session: &'a SessionRecord,
    catalogue: &'a Catalogue,
    policy: &'a Policy,
    /// The default plan under the policy.
    default: Plan,
    plans: BTreeMap<PlanId, Plan>,
    gates: BTreeMap<PlanId, Gate>,
    /// Samples of plans against the recorded default.
    steps: BTreeMap<(PlanId, Scenario, Weight), [Vec<f64>; 2]>,
    /// The plans that run a scenario in the same way.
    alike: BTreeMap<(PlanId, Scenario), PlanId>,
    /// Samples of kernels against others of their site.
    kernels: BTreeMap<(SiteId, [Configured; 2], bool), [Vec<f64>; 2]>,
    /// Whether any plan was compared with the default.
    compared: bool,
    /// Trials of other devices and models.
    others: usize,
}

impl<'a> Known<'a> {
    fn of(records: &'a Records, catalogue: &'a Catalogue, policy: &'a Policy) -> Result<Self, DeriveError> {
        let entries = || records.as_slice().iter();
        let session = records.newest_session().ok_or(DeriveError::NoSession)?;
        let plans: BTreeMap<PlanId, Plan> = entries()
            .filter_map(|entry| match &entry.record {
                Record::Plan(known) if known.plan.device == session.device && known.plan.model == session.shape => {
                    Some((PlanId::of(&known.plan), (*known.plan).clone()))
                }
                _ => None,
            })
            .collect();
        let recorded = plans.get(&session.default).ok_or_else(|| DeriveError::NoDefault(session.default.clone()))?;
        let default = if policy.without.is_empty() {
            recorded.clone()
        } else {
            let mut limits = (*session.limits).clone();
            limits.features.retain(|feature| !policy.without.contains(feature));
            Plan::default_for(session.device.clone(), session.shape, &limits)
        };
        let default = default.at_most(policy.allowed, catalogue);
        let mut known = Known {
            session,
            catalogue,
            policy,
            default,
            plans,
            gates: BTreeMap::new(),
            steps: BTreeMap::new(),
            alike: BTreeMap::new(),
            kernels: BTreeMap::new(),
            compared: false,
            others: 0,
        };
        // By id: the order in which ledgers were merged changes nothing. An extended gate says more of a plan whose
        // gate is known.
        let is_extended = |trial: &Trial| matches!(trial.identity.tried, Job::ExtendedGate { .. });
        let mut trials: Vec<(&str, &Trial)> = records.trials().collect();
        trials.sort_by_key(|(id, trial)| (is_extended(trial), *id));
        trials.dedup_by_key(|(id, _)| *id);
        trials.into_iter().for_each(|(_, trial)| known.learn(trial));
        for entry in entries() {
            if let Record::Alike(Alike { plan, scenario, as_plan, .. }) = &entry.record {
                known.alike.insert((plan.clone(), *scenario), as_plan.clone());
            }
        }
        Ok(known)
    }

    fn learn(&mut self, trial: &Trial) {
        let is_model = trial.identity.model.as_ref().is_none_or(|model| *model == self.session.model);
        if trial.identity.device != self.session.device || !is_model {
            self.others += 1;
            return;
        }
        match (&trial.identity.tried, &trial.outcome) {
            (Job::Gate { plan, .. }, Outcome::Gate(gate)) => {
                // Once wrong, always wrong.
                let known = self.gates.entry(plan.clone()).or_insert_with(|| gate.clone());
                if !gate.passed {
                    *known = gate.clone();
                }
            }
            (Job::ExtendedGate { plan, .. }, Outcome::Gate(gate)) => {
                if let Some(known) = self.gates.get_mut(plan) {
                    match gate.passed {
                        // Of a plan that changes decoding alone no longer prompt was looked at than by the first gate.
                        true => known.checked = known.checked.max(gate.checked),
                        false => *known = gate.clone(),
                    }
                }
            }
            (Job::Steps { plans: [default, plan], scenario, held_out }, Outcome::Pair { samples_ns, .. })
                if *default == self.session.default =>
            {
                self.compared = true;
                let weight = if *held_out { Weight::HeldOut } else { Weight::First };
                pool(self.steps.entry((plan.clone(), *scenario, weight)).or_default(), samples_ns);
            }
            (Job::Confirm { plans: [default, plan], scenario, .. }, Outcome::Pair { samples_ns, .. })
                if *default == self.session.default =>
            {
                self.compared = true;
                pool(self.steps.entry((plan.clone(), *scenario, Weight::Confirmed)).or_default(), samples_ns);
            }
            (Job::Kernels { site, kernels, held_out }, Outcome::Pair { samples_ns, .. }) => {
                pool(self.kernels.entry((site.clone(), kernels.clone(), *held_out)).or_default(), samples_ns);
            }
            _ => {}
        }
    }

    /// Why a plan may not be used, if so.
    fn refusal(&self, plan: &Plan) -> Option<String> {
        if plan.least_precise(self.catalogue) > self.policy.allowed {
            return Some(format!("it computes in {}", plan.least_precise(self.catalogue)));
        }
        plan.choices.iter().find_map(|choice| self.choice_refusal(choice))
    }

    fn choice_refusal(&self, choice: &Choice) -> Option<String> {
        let name = || format!("{}: {choice}", choice.key);
        let Some(variant) = self.catalogue.variant(&choice.key.op, &choice.variant) else {
            return Some(format!("{} is gone", name()));
        };
        let Ok(config) = variant.config(&choice.config) else { return Some(format!("{} is gone", name())) };
        if let Some(feature) = self.policy.without.iter().find(|feature| variant.may_need(**feature)) {
            return Some(format!("{} may need {feature}", name()));
        }
        let text = Choice::new(choice.key.clone(), variant, &config);
        match text.is_ok_and(|now| now.source == choice.source) {
            true => None,
            false => Some(format!("{} was edited since", name())),
        }
    }

    /// A plan with its evidence, and its gains, if it qualifies.
    fn judge(
        &self,
        id: &PlanId,
        plan: &Plan,
        objective: &Objective,
        derived: &mut Derived,
    ) -> Result<Option<(Plan, Vec<Gain>)>, DeriveError> {
        let scenarios = objective.scenarios();
        let timed = |scenario: &Scenario| self.compared_in(id, *scenario);
        let measured = scenarios.iter().filter(|scenario| timed(scenario).is_some()).count();
        if measured == 0 || *id == self.session.default {
            return Ok(None);
        }
        if let Some(why) = self.refusal(plan) {
            derived.decisions.push(format!("plan {id} is left out: {why}"));
            return Ok(None);
        }
        let gate = match self.gates.get(id) {
            Some(gate) if gate.passed => gate,
            Some(gate) => {
                derived.decisions.push(format!("plan {id} is wrong: {}", gate.detail));
                return Ok(None);
            }
            None => {
                derived.missing.push(format!("the gate of plan {id}"));
                return Ok(None);
            }
        };
        let (mut gains, mut alike) = (Vec::new(), Vec::new());
        for (scenario, share) in objective.shares() {
            let Some(result) = timed(&scenario) else {
                if self.runs_as_default(id, scenario) {
                    alike.push((scenario, share));
                    continue;
                }
                derived.missing.push(format!("plan {id} in {scenario}"));
                // Where trials run in the process of the sweep nothing says what a start takes.
                if scenario.from_start {
                    continue;
                }
                return Ok(None);
            };
            if !scenario.from_start && result.is_surely_slower() {
                derived.decisions.push(format!("plan {id} is slower in {scenario}"));
                return Ok(None);
            }
            gains.push(Gain { scenario, share, result });
        }
        let is_faster = |gain: &Gain| !gain.scenario.from_start && gain.result.comparison.interval.low > 0.0;
        if !gains.iter().any(is_faster) {
            derived.decisions.push(format!("plan {id} is surely faster in nothing"));
            return Ok(None);
        }
        if !alike.is_empty() {
            let names: Vec<String> = alike.iter().map(|(scenario, _)| scenario.to_string()).collect();
            let names = names.join(", ");
            derived
                .decisions
                .push(format!("plan {id} has the kernels of the default, and was not compared, in {names}"));
        }
        let whole: f64 = alike.iter().map(|(_, share)| share).chain(gains.iter().map(|gain| &gain.share)).sum();
        gains.iter_mut().for_each(|gain| gain.share /= whole);
        let evidence = gains.iter().map(|gain| evidence_of(gain.scenario, &gain.result)).collect();
        Ok(Some((plan.clone().with_evidence(self.evidence(gate, evidence)), gains)))
    }

    /// What a plan that passed the gate can show.
    fn evidence(&self, gate: &Gate, scenarios: Vec<ScenarioEvidence>) -> Evidence {
        Evidence {
            plan: String::new(),
            model: self.session.model.clone(),
            quality_hash: gate.quality_hash.clone().unwrap_or_default(),
            class: gate.class,
            decisions: gate.agreeing.map_or(0, |(_, decisions)| decisions),
            checked: gate.checked.unwrap_or_default(),
            certified: gate.certified.unwrap_or_default(),
            rms_error: gate.rms,
            scenarios,
            ledger: String::new(),
            without_op: Vec::new(),
        }
    }

    /// The plan, then those that run a scenario as it does, as sweeps have written down.
    fn running_alike<'p>(&'p self, id: &'p PlanId, scenario: Scenario) -> impl Iterator<Item = &'p PlanId> {
        let next = move |id: &&'p PlanId| self.alike.get(&((*id).clone(), scenario));
        // A ledger that was put together by hand may go round in circles.
        std::iter::successors(Some(id), next).take(self.plans.len() + 1)
    }

    /// Whether a plan runs a scenario as the default does.
    fn runs_as_default(&self, id: &PlanId, scenario: Scenario) -> bool {
        self.running_alike(id, scenario).any(|id| *id == self.session.default)
    }

    /// What the comparisons of a plan with the default say, by the samples that weigh most.
    fn compared_in(&self, id: &PlanId, scenario: Scenario) -> Option<PairedResult> {
        let weights = [Weight::Confirmed, Weight::HeldOut, Weight::First];
        let of = |id: &PlanId| weights.into_iter().find_map(|weight| self.steps.get(&(id.clone(), scenario, weight)));
        let samples = self.running_alike(id, scenario).find_map(of);
        paired(samples?, &Effort::none().criteria()).ok()
    }

    /// The default plan with the kernels that beat others of their sites twice, the fastest of each.
    fn assemble(&self, derived: &mut Derived) {
        let mut best: BTreeMap<&SiteId, (f64, Choice)> = BTreeMap::new();
        for ((site, kernels, held_out), samples) in &self.kernels {
            let first = self.kernels.get(&(site.clone(), kernels.clone(), false));
            let (true, Some(first)) = (*held_out, first) else { continue };
            let gains = [first, samples].map(|[a, b]| compare(a, b, &Criteria::kernel()));
            let [Ok(first), Ok(second)] = gains else { continue };
            if [first.verdict, second.verdict] != [Verdict::Fast; 2] {
                continue;
            }
            let Some(variant) = self.catalogue.variant(&site.key.op, &kernels[1].variant) else { continue };
            let Ok(config) = variant.config(&kernels[1].config) else { continue };
            let Ok(choice) = Choice::new(site.key.clone(), variant, &config) else { continue };
            let is_refused = variant.precision(&config) > self.policy.allowed || self.choice_refusal(&choice).is_some();
            if !is_refused && best.get(site).is_none_or(|(known, _)| second.log_ratio > *known) {
                best.insert(site, (second.log_ratio, choice));
            }
        }
        for (site, (gain, choice)) in best {
            derived.decisions.push(format!("{site}: {choice}, x{:.3} alone", gain.exp()));
            derived.plan.adopt(choice);
        }
        derived.missing.push("the gate, and every comparison of the whole plan with the default".to_owned());
    }
}

/// The weighted mean of the logarithms of gains: what an objective counts.
pub fn overall(gains: &[Gain]) -> f64 {
    gains.iter().map(|gain| gain.share * gain.result.comparison.log_ratio).sum()
}

/// What a comparison says in a plan.
fn evidence_of(scenario: Scenario, result: &PairedResult) -> ScenarioEvidence {
    let interval = result.comparison.interval;
    ScenarioEvidence {
        scenario: scenario.name().to_owned(),
        tokens: scenario.tokens * scenario.sequences,
        default_us: result.incumbent_ns / 1e3,
        tuned_us: result.candidate_ns / 1e3,
        speedup: (interval.low.exp(), interval.high.exp()),
        pairs: result.comparison.pairs as u32,
    }
}
