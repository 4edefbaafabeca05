//! What a plan runs in a scenario: of two plans that run it alike, samples of one hold for the other.

use crate::scenario::Scenario;
use crate::space::groups;
use crate::sweep::Problem;
use std::fmt::Write;
use wgoose_graph::FusionSet;
use wgoose_kernels::plan::{Fusions, TuningKey};
use wgoose_kernels::{HandOver, Plan};

impl Problem {
    /// Whether two plans run a scenario by the same kernels from the same weights. The head of a prompt does not count: it sees one row
    /// there as in decode, takes a larger share of that, and a kernel of it is chosen for being faster alone.
    pub(crate) fn run_alike(&self, plans: [&Plan; 2], scenario: Scenario) -> bool {
        let [a, b] = plans.map(|plan| self.running(plan, scenario));
        a.is_some() && a == b
    }

    /// All that decides what a plan runs in a scenario, as a text. `None` for starts of processes, in which everything counts.
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

/// What a plan chose for a kind of op instance, its own choice first, then those of larger buckets, which serve fewer rows, too.
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
pub(crate) fn changes_only_decode(other: &Plan, plan: &Plan) -> bool {
    let bare = |plan: &Plan| {
        let fusions = Fusions { decode: FusionSet::default(), ..plan.fusions.clone() };
        let mut bare = Plan { persistent: None, hand_over: HandOver::Barrier, fusions, ..plan.clone() };
        // The head of a prompt sees one row, too: it is run by what decoding runs.
        bare.choices.retain(|choice| choice.key.up_to_rows > 1);
        bare.hash()
    };
    bare(other) == bare(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::made_up;
    use wgoose_graph::{Format, ModelShape, Weight};
    use wgoose_kernels::Catalogue;
    use wgoose_kernels::plan::Choice;

    #[test]
    fn scenarios_are_alike_where_the_same_kernels_run() {
        let shape = ModelShape::preset("0.1B").unwrap();
        let format = |weight: Weight| if weight == Weight::Head { Format::Q6_K } else { Format::Q8_0 };
        let mut problem = made_up(shape, Weight::all(&shape).map(|weight| (weight, format(weight))).collect());
        problem.default.prefill_chunk = 2048;
        let (default, catalogue) = (&problem.default, Catalogue::embedded());
        let with = |scenario: Scenario, op: &str, m: u32| {
            let is_decode = scenario == Scenario::DECODE;
            let fusions = if is_decode { &default.fusions.decode } else { &default.fusions.prefill };
            let groups = groups(&shape, scenario, fusions, &problem.formats_on_gpu(default));
            let found = groups.into_iter().find(|group| group.key.op == op && group.key.m == m).unwrap();
            let variant = catalogue.variant(op, "naive").unwrap();
            let mut plan = default.clone();
            plan.adopt(Choice::new(found.key, variant, &variant.default_config()).unwrap());
            plan
        };
        let alike = |plan: &Plan| {
            [1, 32, 512, 2500, plan.prefill_chunk + 1]
                .map(|tokens| problem.run_alike([default, plan], Scenario::prefill(tokens)))
        };
        assert_eq!(alike(default), [true; 5]);
        // A pass of one token is one of decode.
        let of_decode = [false, true, true, true, false];
        let of_layers = with(Scenario::DECODE, "matmul", 3072);
        assert_eq!(alike(&of_layers), of_decode);
        assert_eq!(alike(&with(Scenario::DECODE, "matmul", 65536)), of_decode);
        assert_eq!(alike(&Plan { persistent: Some(132), ..default.clone() }), of_decode);
        assert_eq!(alike(&Plan { interleave: [Format::Q6_K].into(), ..default.clone() }), of_decode);
        assert_eq!(alike(&Plan { interleave: [Format::Q8_0].into(), ..default.clone() }), [false; 5]);
        // 2,500 tokens are a chunk and a rest of 452.
        assert_eq!(alike(&with(Scenario::prefill(32), "matmul", 3072)), [true, false, true, true, true]);
        // A choice for more rows serves fewer, too.
        assert_eq!(alike(&with(Scenario::prefill(512), "matmul", 3072)), [true, false, false, false, true]);
        let chunked = Plan { prefill_chunk: 1024, ..default.clone() };
        assert_eq!(alike(&chunked), [true, true, true, false, false]);
        assert!(!problem.run_alike([default; 2], Scenario { from_start: true, ..Scenario::prefill(32) }));

        let mut fused = default.clone();
        fused.fusions.decode.pop_first();
        let persistent = Plan { persistent: Some(132), hand_over: HandOver::Announced, ..default.clone() };
        let decoding = [default, &of_layers, &fused, &persistent];
        assert!(decoding.into_iter().all(|plan| changes_only_decode(default, plan)));
        let interleaved = Plan { interleave: [Format::Q6_K].into(), ..default.clone() };
        let others = [&interleaved, &chunked, &with(Scenario::prefill(32), "matmul", 3072)];
        assert!(others.into_iter().all(|plan| !changes_only_decode(default, plan)));
    }
}
