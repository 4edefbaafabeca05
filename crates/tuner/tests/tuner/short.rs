//! A search that has little time, on a made-up device: what it finds, when it ends, and what it need not compare.

use crate::simulated::{cache, options, problem};
use std::ops::ControlFlow;
use wgoose_graph::Format;
use wgoose_kernels::plan::Checked;
use wgoose_measure::derive::{Policy, derive};
use wgoose_measure::ledger;
use wgoose_measure::objective::Objective;
use wgoose_measure::runner::Runner;
use wgoose_measure::scenario::Scenario;
use wgoose_plans::catalogue;
use wgoose_sim::{Costs, SimulatedDevice, SimulatedRunner};
use wgoose_tuner::sweep::{Event, SweepOptions, SweepStep, search};

#[test]
fn a_search_of_any_workload_ends_within_a_short_budget() {
    for (workload, budget) in [("embed", 15), ("batch", 20), ("chat", 10)] {
        let folder = tempfile::tempdir().unwrap();
        let (mut problem, catalogue) = (problem("2.9B", Format::Q8_0), catalogue::embedded());
        // No prompt of the workload fills a larger chunk.
        problem.default.prefill_chunk = 4096;
        let objective = Objective::named(workload, false).unwrap();
        let chunks = vec![512, 8192];
        let options = SweepOptions { objective, chunks, ..options(&folder.path().join("ledger.jsonl"), budget) };
        let device = SimulatedDevice::h200(1);
        // The reference, which is computed in any case, is there.
        let costs = Costs { reference: 0.0, ..device.costs };
        let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice { costs, ..device });
        let ledger = cache(&problem, &options, &mut runner);
        search(&problem, &options, ledger, &mut |_| ControlFlow::Continue(())).unwrap();
        let spent = runner.spent().as_secs_f64();
        assert!(spent < 1.1 * budget as f64, "{workload}: {spent} of {budget} s");
    }
}

#[test]
fn a_short_search_finds_a_megakernel() {
    for (seed, budget) in [(0, 20), (1, 20), (2, 45)] {
        let folder = tempfile::tempdir().unwrap();
        let (problem, catalogue) = (problem("0.1B", Format::Q8_0), catalogue::embedded());
        let options = options(&folder.path().join("ledger.jsonl"), budget);
        let device = SimulatedDevice::h200(seed);
        // The most that an H200 took of each for 1.5 or 2.9 billion weights; the process reads these, too.
        let costs = Costs { merged: 3.7, gate: 2.3, start: 5.0, reference: 10.0, ..device.costs };
        let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice { costs, ..device });
        let mut alike = 0;
        let swept = search(&problem, &options, cache(&problem, &options, &mut runner), &mut |event| {
            alike += u32::from(matches!(event, Event::Done(SweepStep::Alike(_))));
            ControlFlow::Continue(())
        });
        let (plan, spent) = (swept.unwrap().plan, runner.spent().as_secs_f64());
        assert!(spent < 1.1 * budget as f64, "seed {seed}: {spent} of {budget} s");
        let mut ns = |plan, scenario| runner.true_ns(plan, scenario).unwrap();
        let [own, default] = [&plan, &problem.default].map(|plan| ns(plan, Scenario::DECODE));
        assert!(plan.persistent.is_some() && own < default / 1.1, "seed {seed}: {own} instead of {default} ns");
        // It has no other kernels for prompts, which are not compared.
        for scenario in [32, 512].map(Scenario::prefill) {
            let [own, default] = [&plan, &problem.default].map(|plan| ns(plan, scenario));
            assert!((own - default).abs() < 1e-9 * default, "seed {seed}, {scenario}: {own} instead of {default} ns");
        }
        let evidence = plan.evidence.unwrap();
        // The extended gate looked at decoding alone, which takes nothing from what the first one looked at.
        assert_eq!(evidence.checked, Checked { tokens: 87, sequences: 4 }, "seed {seed}");
        let evidence: Vec<String> = evidence.scenarios.into_iter().map(|timed| timed.scenario).collect();
        assert_eq!((evidence, alike), (vec!["decode".to_owned()], 2), "seed {seed}");
    }
}

/// Prompts that the default reads by the same kernels need no comparison; what decodes faster has to be seen in a
/// process of its own.
#[test]
fn a_plan_with_the_prefill_of_the_default_is_derived_once_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let (problem, catalogue) = (problem("0.1B", Format::Q8_0), catalogue::embedded());
    let options = options(&folder.path().join("ledger.jsonl"), 20);
    let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice::h200(0));
    let cache = cache(&problem, &options, &mut runner);
    let swept = search(&problem, &options, cache, &mut |_| ControlFlow::Continue(())).unwrap();
    let text = std::fs::read_to_string(&options.ledger).unwrap();
    let derived = |is_kept: &dyn Fn(&str) -> bool| {
        let path = folder.path().join("part.jsonl");
        let lines: Vec<&str> = text.lines().filter(|line| is_kept(line)).collect();
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        let policy = Policy { allowed: options.allowed, ..Policy::all() };
        derive(&ledger::read(&path).unwrap().0, &catalogue, &options.objective, &policy).unwrap()
    };
    let whole = derived(&|_| true);
    assert_eq!(whole.plan.hash(), swept.plan.hash());
    // Decoding is a third of what counts.
    assert!(matches!(&whole.gains[..], [decode] if (decode.share - 1.0 / 3.0).abs() < 0.01), "{:?}", whole.gains);
    assert!(whole.decisions.iter().any(|why| why.ends_with("prefill of 32, prefill of 512")), "{:?}", whole.decisions);
    let not_compared = derived(&|line| !line.contains("\"record\":\"alike\""));
    assert!(not_compared.plan.evidence.is_none());
    assert!(not_compared.missing.iter().any(|what| what.ends_with("in prefill of 32")), "{:?}", not_compared.missing);
}
