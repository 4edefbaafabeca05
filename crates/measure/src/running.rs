//! The way a plan runs a scenario: samples of one plan hold for another that runs it alike.

use crate::problem::Problem;
use crate::scenario::Scenario;
use crate::space::groups;
use std::fmt::Write;
use wgoose_graph::FusionSet;
use wgoose_kernels::plan::{Fusions, TuningKey};
use wgoose_kernels::{HandOver, Plan};

impl Problem {
    /// Whether two plans run a scenario by the same kernels from the same weights. The head of a prompt does not count:
    /// it sees one row there as in decode, takes a larger share of that, and a kernel of it is chosen for being faster
    /// alone.
    pub fn run_alike(&self, plans: [&Plan; 2], scenario: Scenario) -> bool {
        let [a, b] = plans.map(|plan| self.running(plan, scenario));
        a.is_some() && a == b
    }

    /// All that decides what a plan runs in a scenario, as a text. `None` for starts of processes, in which everything
    /// counts.
    fn running(&self, plan: &Plan, scenario: Scenario) -> Option<String> {
        let Scenario { tokens, sequences, from_start } = scenario;
        if from_start {
            return None;
        }
        let mut text = format!("{:?} {:?} {}\n", plan.precision, plan.state, plan.multiprocessors);
        let passes = match tokens {
            1 => [1, 0],
            _ => [tokens.min(plan.prefill_chunk), tokens % plan.prefill_chunk.max(1)],
        };
        for tokens in passes.into_iter().filter(|tokens| *tokens > 0) {
            let pass = Scenario { tokens, ..scenario };
            let fusions = match (tokens, sequences) {
                (1, 1) => &plan.fusions.decode,
                (1, _) => &plan.fusions.batched,
                _ => &plan.fusions.prefill,
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{pass} {fusions:?}");
            if pass == Scenario::DECODE {
                let _ = writeln!(text, "{:?} {:?}", plan.persistent, plan.hand_over);
            }
            for group in groups(&self.shape, pass, fusions, &self.formats_on_gpu(plan)) {
                if tokens == 1 || group.instance.rows > 1 {
                    let _ = writeln!(text, "{}: {}", group.key, kernels_for(plan, &group.key));
                }
            }
        }
        Some(text)
    }
}

/// What a plan chose for a kind of op instance, its own choice first, then those of larger buckets, which serve fewer
/// rows, too.
fn kernels_for(plan: &Plan, key: &TuningKey) -> String {
    let of = |other: &TuningKey| {
        let is_served = other.up_to_rows == key.up_to_rows || (key.up_to_rows > 1 && other.up_to_rows > key.up_to_rows);
        is_served && (&other.op, other.k, other.m, &other.formats) == (&key.op, key.k, key.m, &key.formats)
    };
    let mut choices: Vec<_> = plan.choices.iter().filter(|choice| of(&choice.key)).collect();
    choices.sort_by_key(|choice| choice.key.up_to_rows);
    choices.into_iter().map(|choice| format!("{} {choice}; ", choice.key.up_to_rows)).collect()
}

/// Whether a plan is another one but for what a step of one sequence runs.
pub fn changes_only_decode(other: &Plan, plan: &Plan) -> bool {
    let bare = |plan: &Plan| {
        let fusions = Fusions { decode: FusionSet::default(), ..plan.fusions.clone() };
        let mut bare = Plan { persistent: None, hand_over: HandOver::Barrier, fusions, ..plan.clone() };
        // The head of a prompt sees one row, too: it is run by what decoding runs.
        bare.choices.retain(|choice| choice.key.up_to_rows > 1);
        bare.hash()
    };
    bare(other) == bare(plan)
}
