//! Searches on simulated devices whose whole steps are slow: they gain in the first minute, and end in time.

use crate::simulated::{cache, options};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use wgoose_graph::{Format, LoraRanks, ModelShape, Weight};
use wgoose_loader::synth::Mix;
use wgoose_measure::derive::{Policy, derive};
use wgoose_measure::ledger;
use wgoose_measure::objective::Objective;
use wgoose_measure::problem::Problem;
use wgoose_measure::runner::Runner;
use wgoose_measure::scenario::Scenario;
use wgoose_plans::catalogue;
use wgoose_sim::{SimulatedDevice, SimulatedRunner, limits_of_integrated, limits_of_software, with_limits};
use wgoose_tuner::sweep::{Event, SweepError, SweepOptions, search};

/// The model of `cargo xtask demo` on a software adapter.
fn demo() -> Problem {
    let ranks = LoraRanks { decay: 32, iclr: 32, value: 16, gate: 64 };
    let shape = ModelShape {
        layers: 3,
        width: 256,
        ffn: 768,
        head_size: 64,
        vocab: 2048,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    };
    with_limits(shape, formats(&shape, Mix::Q4_K_M), limits_of_software())
}

/// A published model on a GPU that cannot merge steps.
fn integrated() -> Problem {
    let shape = ModelShape::preset("1.5B").unwrap();
    with_limits(shape, formats(&shape, Mix::Q4_K_M), limits_of_integrated())
}

fn formats(shape: &ModelShape, mix: Mix) -> BTreeMap<Weight, Format> {
    Weight::all(shape).map(|weight| (weight, mix.in_gguf(weight))).collect()
}

/// Options for a minute.
fn minute(problem: &Problem, folder: &tempfile::TempDir) -> SweepOptions {
    let objective = Objective::chat(problem.limits.is_cpu);
    SweepOptions { objective, persistent: false, ..options(&folder.path().join("ledger.jsonl"), 60) }
}

#[test]
fn a_minute_on_a_slow_device_ends_with_a_plan_slower_in_no_scenario() {
    let devices = [
        (demo(), SimulatedDevice::software(0)),
        (demo(), SimulatedDevice::software(1).busy()),
        (integrated(), SimulatedDevice::integrated(0, 0.3)),
        (integrated(), SimulatedDevice::integrated(1, 3.0)),
    ];
    let mut without = Vec::new();
    for (problem, device) in devices {
        let (folder, catalogue) = (tempfile::tempdir().unwrap(), catalogue::embedded());
        let options = minute(&problem, &folder);
        let mut runner = SimulatedRunner::new(&problem, &catalogue, device.clone());
        let ledger = cache(&problem, &options, &mut runner);
        let swept = search(&problem, &options, ledger, &mut |_| ControlFlow::Continue(())).unwrap();
        let spent = runner.spent().as_secs_f64();
        assert!(spent <= 66.0, "{device:?}: {spent} s");
        let mut is_faster = false;
        for scenario in options.objective.scenarios() {
            let [own, default] = [&swept.plan, &problem.default].map(|plan| runner.true_ns(plan, scenario).unwrap());
            assert!(own < 1.01 * default, "{device:?}, {scenario}: {own} ns, {default} by default");
            is_faster |= own < default / 1.02;
        }
        let has_evidence = swept.plan.evidence.is_some_and(|evidence| !evidence.scenarios.is_empty());
        assert!(is_faster || !has_evidence, "{device:?}: it says that it is faster");
        if !is_faster {
            without.push(device);
        }
    }
    // Seconds for a kernel leave no time for more than a few.
    assert!(without.iter().all(|device| device.costs.kernel > 1.0), "these gain nothing: {without:?}");
}

#[test]
fn an_interrupted_slow_search_leaves_its_best_plan() {
    let (problem, folder, catalogue) = (demo(), tempfile::tempdir().unwrap(), catalogue::embedded());
    let options = minute(&problem, &folder);
    let device = SimulatedDevice { noise: 0.005, instance: 0.002, ..SimulatedDevice::software(3) };
    let mut runner = SimulatedRunner::new(&problem, &catalogue, device);
    let mut has_kept = false;
    let stopped = search(&problem, &options, cache(&problem, &options, &mut runner), &mut |event| {
        let ended = if has_kept { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        has_kept |= matches!(event, Event::Best { .. });
        ended
    });
    assert!(has_kept && matches!(stopped, Err(SweepError::Stopped)), "{stopped:?}");
    let records = ledger::read(&options.ledger).unwrap().0;
    let policy = Policy { allowed: options.allowed, ..Policy::all() };
    let kept = derive(&records, &catalogue, &options.objective, &policy).unwrap().plan;
    let [own, default] = [&kept, &problem.default].map(|plan| runner.true_ns(plan, Scenario::DECODE).unwrap());
    assert!(kept.evidence.is_some() && own < default, "{own} ns, {default} by default");
}
