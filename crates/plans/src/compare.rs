//! How two plans differ.

use crate::gain;
use std::collections::BTreeSet;
use std::fmt::{self, Display};
use wgoose_graph::FusionSet;
use wgoose_kernels::Plan;
use wgoose_kernels::plan::Evidence;

/// One thing in which two plans differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What it is: `prefill chunk`, or a tuning key.
    pub what: String,
    /// In the first plan.
    pub a: String,
    /// In the second.
    pub b: String,
}

/// All in which two plans differ, the structure first, then the kernels, then the evidence.
pub fn differences(a: &Plan, b: &Plan) -> Vec<Difference> {
    let mut all = Differences(Vec::new());
    let (da, db) = (&a.device, &b.device);
    all.add("adapter", &da.adapter, &db.adapter);
    all.add("backend", &da.backend, &db.backend);
    all.add("driver", &da.driver, &db.driver);
    all.add("wgpu", &da.wgpu, &db.wgpu);
    let sizes = |plan: &Plan| format!("{} layers of width {}", plan.model.layers, plan.model.width);
    all.add("model", sizes(a), sizes(b));
    all.add("prefill chunk", a.prefill_chunk, b.prefill_chunk);
    all.fusions("decode fusions", &a.fusions.decode, &b.fusions.decode);
    all.fusions("batched decode fusions", &a.fusions.batched, &b.fusions.batched);
    all.fusions("prefill fusions", &a.fusions.prefill, &b.fusions.prefill);
    let formats = |plan: &Plan| list(&plan.interleave.iter().map(ToString::to_string).collect::<Vec<_>>());
    all.add("interleaved", formats(a), formats(b));
    let k_major = |plan: &Plan| list(&plan.k_major.iter().map(|role| format!("{role:?}")).collect::<Vec<_>>());
    all.add("K-major", k_major(a), k_major(b));
    let persistent = |plan: &Plan| plan.persistent.map_or("none".to_owned(), |n| format!("{n} workgroups"));
    all.add("megakernel", persistent(a), persistent(b));
    all.add("synchronisation", a.hand_over, b.hand_over);
    all.add("multiprocessors", a.multiprocessors, b.multiprocessors);
    all.add("precision of other kernels", a.precision, b.precision);
    all.add("state", a.state, b.state);
    all.choices(a, b);
    all.evidence(a, b);
    all.0
}

struct Differences(Vec<Difference>);

impl Differences {
    fn add(&mut self, what: impl Display, a: impl Display, b: impl Display) {
        let (what, a, b) = (what.to_string(), a.to_string(), b.to_string());
        if a != b {
            self.0.push(Difference { what, a, b });
        }
    }

    /// What one has and the other has not.
    fn fusions(&mut self, what: &str, a: &FusionSet, b: &FusionSet) {
        let names = |set: FusionSet| list(&set.iter().map(|fusion| format!("+{fusion}")).collect::<Vec<_>>());
        self.add(what, names(a - b), names(b - a));
    }

    fn choices(&mut self, a: &Plan, b: &Plan) {
        let keys: BTreeSet<_> = a.choices.iter().chain(&b.choices).map(|choice| &choice.key).collect();
        for key in keys {
            let [in_a, in_b] = [a, b].map(|plan| plan.choices.iter().find(|choice| choice.key == *key));
            let says = |choice: Option<_>| {
                choice.map_or("default".to_owned(), |c: &wgoose_kernels::plan::Choice| c.to_string())
            };
            match (in_a, in_b) {
                (Some(a), Some(b)) if a.to_string() == b.to_string() && a.source != b.source => {
                    self.add(key, a, format_args!("{b}, with another text"));
                }
                (a, b) => self.add(key, says(a), says(b)),
            }
        }
    }

    fn evidence(&mut self, a: &Plan, b: &Plan) {
        let scenarios = |plan: &Plan| plan.evidence.iter().flat_map(|e| e.scenarios.clone()).collect::<Vec<_>>();
        let [in_a, in_b] = [a, b].map(scenarios);
        let keys = in_a.iter().chain(&in_b).map(|s| (s.scenario.clone(), s.tokens)).collect::<BTreeSet<_>>();
        for (scenario, tokens) in keys {
            let says = |all: &[wgoose_kernels::plan::ScenarioEvidence]| {
                let own = all.iter().find(|s| (s.scenario.as_str(), s.tokens) == (&scenario, tokens));
                own.map_or("not measured".to_owned(), |s| format!("{:.0} us, {:.2} x", s.tuned_us, gain(s)))
            };
            self.add(format_args!("{scenario}, {tokens} tokens"), says(&in_a), says(&in_b));
        }
        let hash = |plan: &Plan| match &plan.evidence {
            None => "none".to_owned(),
            Some(Evidence { quality_hash, class: None, .. }) => quality_hash.clone(),
            Some(Evidence { quality_hash, class: Some(class), .. }) => format!("{quality_hash} ({class})"),
        };
        let is_one_model = |a: &Plan, b: &Plan| {
            let model = |plan: &Plan| plan.evidence.as_ref().map(|e| e.model.clone());
            model(a) == model(b)
        };
        // The hash is of one model file.
        if is_one_model(a, b) {
            self.add("quality hash", hash(a), hash(b));
        }
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(" ") }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} | {}", self.what, self.a, self.b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{choice, default_plan, evidence};
    use wgoose_graph::Fusion;
    use wgoose_kernels::HandOver;

    #[test]
    fn every_difference_of_two_plans_is_named() {
        let plan = default_plan("0.1B");
        assert_eq!(differences(&plan, &plan.clone()), []);
        let mut other = plan.clone();
        other.prefill_chunk += 1;
        other.fusions.decode.remove(&Fusion::NormShift);
        other.persistent = Some(8);
        other.hand_over = HandOver::Announced;
        other.choices.push(choice());
        other.evidence = Some(evidence(2.0));
        let found = differences(&plan, &other);
        let what: Vec<&str> = found.iter().map(|d| d.what.as_str()).collect();
        let key = choice().key.to_string();
        assert_eq!(
            what,
            ["prefill chunk", "decode fusions", "megakernel", "synchronisation", &key, "decode, 1 tokens"]
        );
        assert_eq!((found[1].a.as_str(), found[1].b.as_str()), ("+norm-shift", "none"));
        assert_eq!(found[4].a, "default");
        assert_eq!((found[5].a.as_str(), found[5].b.as_str()), ("not measured", "100 us, 2.00 x"));

        let mut edited = other.clone();
        edited.choices[0].source = "0".repeat(32);
        let found = differences(&other, &edited);
        assert!(found.len() == 1 && found[0].b.ends_with("with another text"), "{found:?}");
    }
}
