//! A search on a made-up device: what it finds is held against the truth, in virtual time, without a GPU.

use crate::simulated::{cache, options, problem};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wgoose_graph::Format;
use wgoose_kernels::plan::{Checked, Choice};
use wgoose_kernels::{Catalogue, Feature, HandOver, Plan, Precision};
use wgoose_measure::derive::{Policy, best_so_far, derive};
use wgoose_measure::job::{Configured, Cost, Job};
use wgoose_measure::ledger::{self, Ledger, Outcome, Record, Records};
use wgoose_measure::objective::Objective;
use wgoose_measure::runner::{Assignment, Runner, RunnerError};
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::{InstanceGroup, Scope, groups};
use wgoose_plans::catalogue;
use wgoose_sim::{Costs, ReplayRunner, SimulatedDevice, SimulatedRunner};
use wgoose_tuner::kernel_tuning::KernelTuner;
use wgoose_tuner::sweep::{
    Candidate, Event, Note, Part, STRATEGIES, Stage, SweepError, SweepOptions, SweepStep, Swept, search, strategy,
    time_all,
};

/// A search on a device, and where it is.
fn searched(device: SimulatedDevice, budget: u64) -> (Swept, Vec<Event>, Duration, [(f64, f64); 3]) {
    let folder = tempfile::tempdir().unwrap();
    let (problem, catalogue) = (problem("0.1B", Format::Q8_0), catalogue::embedded());
    let options = options(&folder.path().join("ledger.jsonl"), budget);
    let mut runner = SimulatedRunner::new(&problem, &catalogue, device);
    let mut events = Vec::new();
    let swept = search(&problem, &options, cache(&problem, &options, &mut runner), &mut |event| {
        events.push(event);
        ControlFlow::Continue(())
    });
    let swept = swept.unwrap();
    let scenarios = [Scenario::DECODE, Scenario::prefill(32), Scenario::prefill(512)];
    let spent = runner.spent();
    let mut truth = |plan, scenario| runner.true_ns(plan, scenario).unwrap();
    let times = scenarios.map(|scenario| (truth(&problem.default, scenario), truth(&swept.plan, scenario)));
    (swept, events, spent, times)
}

#[test]
fn every_form_is_tried_within_the_budget_and_the_plan_is_faster() {
    for seed in 0..2 {
        let (swept, events, spent, times) = searched(SimulatedDevice::h200(seed), 120);
        let stages: Vec<Stage> = events
            .iter()
            .filter_map(|e| if let Event::Stage { stage, .. } = e { Some(*stage) } else { None })
            .collect();
        let mut stages = stages;
        stages.dedup();
        use Stage::{Confirm, Costs, Kernels, Persistent, Reference, Structure};
        assert_eq!(stages, [Structure, Reference, Persistent, Costs, Kernels, Confirm]);
        let compared = |is: &dyn Fn(&Candidate) -> bool| {
            events.iter().any(|e| matches!(e, Event::Done(SweepStep::Compared { candidate, .. }) if is(candidate)))
        };
        assert!(compared(&|candidate| matches!(candidate, Candidate::Change(_))));
        assert!(compared(&|candidate| matches!(candidate, Candidate::Persistent { .. })));
        let is_merged = swept.plan.persistent.is_some();
        assert_eq!(swept.plan.hand_over == HandOver::Announced, is_merged, "values announce themselves for less");
        assert!(!events.iter().any(|e| matches!(e, Event::Done(SweepStep::Wrong { .. }))));
        assert!(spent.as_secs_f64() < 1.1 * 120.0, "{spent:?}");
        let evidence = swept.plan.evidence.as_ref().unwrap();
        for ((default, tuned), evidence) in times.into_iter().zip(&evidence.scenarios) {
            assert!(tuned < 0.99 * default, "seed {seed}: {evidence:?}");
            let said = evidence.tuned_us * 1e3 / tuned;
            assert!((0.97..1.03).contains(&said), "seed {seed}: {evidence:?}, truth {tuned} ns");
        }
    }
}

#[test]
fn searches_come_near_the_best_plans_that_there_are() {
    let (problem, catalogue) = (problem("0.1B", Format::F16), catalogue::embedded());
    let behind = [1, 2, 3].map(|seed| {
        let folder = tempfile::tempdir().unwrap();
        let options = options(&folder.path().join("ledger.jsonl"), 300);
        let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice::h200(seed));
        let ledger = cache(&problem, &options, &mut runner);
        let swept = search(&problem, &options, ledger, &mut |_| ControlFlow::Continue(())).unwrap();
        let best = runner.best_decode_ns(Scope { allowed: options.allowed, exhaustive: false });
        runner.true_ns(&swept.plan, Scenario::DECODE).unwrap() / best - 1.0
    });
    assert!(behind.iter().sum::<f64>() < 3.0 * 0.02, "{behind:?} of the best");
}

#[test]
fn a_winner_of_more_rows_serves_fewer_rows_if_it_is_faster() {
    let folder = tempfile::tempdir().unwrap();
    let (problem, catalogue) = (problem("0.1B", Format::F16), catalogue::embedded());
    let options = options(&folder.path().join("ledger.jsonl"), 1000);
    let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice::h200(3));
    let mut cache = cache(&problem, &options, &mut runner);
    let fusions = &problem.default.fusions.prefill;
    let all = groups(&problem.shape, Scenario::prefill(32), fusions, &|_| Format::F16);
    let site = all.into_iter().find(|group| group.key.op == "matmul_add" && group.key.k > 768).unwrap();
    let scope = Scope { allowed: Precision::F32, exhaustive: false };
    let tuner = KernelTuner::new(&problem.limits, &catalogue, scope);
    let winner = tuner.tune(&site, &mut cache, Duration::from_secs(100)).unwrap().winner.unwrap();
    let naive = catalogue.variant("matmul_add", "naive").unwrap();
    let slow = Choice::new(site.key.clone(), naive, &naive.default_config()).unwrap();
    let mut kept = |won, time| tuner.default_unless_faster(&site, &mut cache, won, Duration::from_secs(time)).unwrap();
    assert_eq!(kept(&winner, 1000), None);
    let default = kept(&slow, 1000).unwrap();
    assert!(default.key == site.key && default.variant != "naive" && default != winner, "{default}");
    assert_eq!(kept(&winner, 0), Some(default), "there is no time to see whether it is");
}

#[test]
fn the_incumbent_stays_unless_a_plan_is_better() {
    let (problem, catalogue) = (problem("0.1B", Format::F16), catalogue::embedded());
    // Samples of two tunings differ, and so does what they find, if only by noise.
    let tune = |chance, in_use: Option<&Plan>, budget| {
        let folder = tempfile::tempdir().unwrap();
        let options = SweepOptions { in_use: in_use.cloned(), ..options(&folder.path().join("ledger.jsonl"), budget) };
        let device = SimulatedDevice::h200(4);
        let costs = Costs { reference: 0.0, ..device.costs };
        let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice { chance, costs, ..device });
        let found =
            search(&problem, &options, cache(&problem, &options, &mut runner), &mut |_| ControlFlow::Continue(()));
        let (plan, spent) = (found.unwrap().plan, runner.spent().as_secs_f64());
        // What has won has ten seconds more to be confirmed.
        assert!(spent < budget as f64 + 10.0, "{spent} s");
        let scenarios = options.objective.scenarios().into_iter();
        (scenarios.map(|scenario| runner.true_ns(&plan, scenario).unwrap()).collect(), plan)
    };
    let (ns, plan): (Vec<f64>, Plan) = tune(1, None, 120);
    let (_, again): (Vec<f64>, Plan) = tune(3, None, 120);
    assert_ne!(again.hash(), plan.hash(), "these say nothing");
    let (own, kept) = tune(2, Some(&plan), 120);
    let is_better = own.iter().zip(&ns).any(|(own, ns)| *own < 0.995 * ns);
    assert!(kept.hash() == plan.hash() || is_better, "{own:?} ns, {ns:?} in use");
    assert!(own.iter().zip(&ns).all(|(own, ns)| *own < 1.01 * ns), "{own:?} ns, {ns:?} in use");
    assert!(kept.evidence.is_some());
    // Seconds are too few to find it, and enough to see that it is good.
    let (own, quickly) = tune(4, Some(&plan), 20);
    assert_eq!(quickly.hash(), plan.hash(), "{own:?} ns, {ns:?} in use");
    let (_, at_once) = tune(4, Some(&plan), 3);
    assert_eq!(at_once, plan, "there was no time to compare it");
    // One that is slower than the default is not in use for long.
    let slow = catalogue.variant("matmul_add", "naive").unwrap();
    let mut worse = problem.default.clone();
    for group in groups(&problem.shape, Scenario::DECODE, &worse.fusions.decode, &|_| Format::F16) {
        if group.key.op == "matmul_add" {
            worse.adopt(Choice::new(group.key, slow, &slow.default_config()).unwrap());
        }
    }
    let (own, found) = tune(5, Some(&worse), 100);
    assert!(found.hash() != worse.hash() && own[0] < 1.2 * ns[0], "{own:?} ns, {ns:?} at best");
}

#[test]
fn every_strategy_is_right_and_none_is_better_than_the_first() {
    let (problem, catalogue) = (problem("0.1B", Format::F16), catalogue::embedded());
    let times = STRATEGIES.map(|strategy| {
        let folder = tempfile::tempdir().unwrap();
        let options = SweepOptions { strategy, ..options(&folder.path().join("ledger.jsonl"), 60) };
        let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice::h200(2));
        let found =
            search(&problem, &options, cache(&problem, &options, &mut runner), &mut |_| ControlFlow::Continue(()));
        let (plan, name) = (found.unwrap().plan, strategy.name());
        let spent = runner.spent().as_secs_f64();
        assert!(spent < 66.0, "{name}: {spent} s");
        for scenario in options.objective.scenarios() {
            let [default, tuned] = [&problem.default, &plan].map(|plan| runner.true_ns(plan, scenario).unwrap());
            assert!(tuned < 1.01 * default, "{name} in {scenario}: {tuned} ns, {default} by default");
        }
        runner.true_ns(&plan, Scenario::DECODE).unwrap()
    });
    assert!(times.iter().all(|ns| *ns >= times[0]), "{times:?}");
    assert_eq!(strategy("staged").unwrap().name(), "staged");
    assert_eq!(
        strategy("lucky").unwrap_err().to_string(),
        "lucky is no strategy: there are staged, incremental, random"
    );
}

#[test]
fn every_strategy_decides_the_requested_parts_only() {
    let (problem, catalogue) = (problem("0.1B", Format::F16), catalogue::embedded());
    for strategy in STRATEGIES {
        let folder = tempfile::tempdir().unwrap();
        let parts = [Part::Fusions].into();
        let options = SweepOptions { strategy, parts, ..options(&folder.path().join("ledger.jsonl"), 30) };
        let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice::h200(2));
        let found =
            search(&problem, &options, cache(&problem, &options, &mut runner), &mut |_| ControlFlow::Continue(()));
        let (plan, default, name) = (found.unwrap().plan, &problem.default, strategy.name());
        assert!(plan.choices.is_empty() && plan.persistent.is_none(), "{name} chose kernels");
        let of = |plan: &Plan| (plan.prefill_chunk, plan.interleave.clone(), plan.k_major.clone());
        assert_eq!(of(&plan), of(default), "{name}");
    }
}

#[test]
fn a_surveyed_device_can_be_searched_again() {
    let folder = tempfile::tempdir().unwrap();
    let (problem, catalogue) = (problem("0.1B", Format::F16), catalogue::embedded());
    let device = SimulatedDevice { noise: 0.001, ..SimulatedDevice::h200(7) };
    let mut timed = Vec::new();
    let shares = [1, 2, 3].map(|part| {
        let options = options(&folder.path().join(format!("{part}.jsonl")), 1);
        let mut runner = SimulatedRunner::new(&problem, &catalogue, device.clone());
        let ledger = cache(&problem, &options, &mut runner);
        timed.push(time_all(&problem, &options, ledger, (part, 3), &mut |_| ControlFlow::Continue(())).unwrap());
        ledger::read(&options.ledger).unwrap().0
    });
    let kernels = |records: &Records| records.trials().filter(|(_, t)| matches!(t.outcome, Outcome::Kernel(_))).count();
    // What two instances of an op share is timed once.
    assert!(shares.iter().zip(&timed).all(|(records, timed)| (0..5).contains(&(timed - kernels(records)))));
    let records = Records::merged(shares);
    // What is not in the records is made up, by another seed.
    let other = SimulatedDevice::h200(8);
    let mut again = SimulatedRunner::new(&problem, &catalogue, other.clone()).with_records(&records);
    let (mut truth, mut other) =
        (SimulatedRunner::new(&problem, &catalogue, device), SimulatedRunner::new(&problem, &catalogue, other));
    let of = |runner: &mut SimulatedRunner<'_>, scenario| runner.true_ns(&problem.default, scenario).unwrap();
    let decode = [&mut truth, &mut again].map(|runner| of(runner, Scenario::DECODE));
    assert!((decode[0] / decode[1] - 1.0).abs() < 0.005, "{decode:?}");
    let prompt = Scenario::prefill(512);
    let [other, again, truth] = [&mut other, &mut again, &mut truth].map(|runner| of(runner, prompt));
    // Its head is that of decoding.
    assert!((other / again - 1.0).abs() < 0.02 && (truth / again - 1.0).abs() > 0.02, "{other} {again} {truth}");
}

#[test]
fn an_added_or_edited_kernel_alone_is_measured_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut problem = problem("0.1B", Format::F16);
    // The fewer kernels it can have, the sooner they are all timed.
    problem.limits.features.clear();
    let ops = folder.path().join("kernels/ops/matmul");
    std::fs::create_dir_all(&ops).unwrap();
    let naive = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels-wgsl/ops/matmul/naive.wgsl");
    let text = std::fs::read_to_string(naive).unwrap();
    let ledger_path = folder.path().join("ledger.jsonl");
    // The variants that are measured, each with how many of its kernels are.
    let timed = |catalogue: Arc<Catalogue>| {
        let before = ledger::read(&ledger_path).map_or(0, |(records, _)| records.as_slice().len());
        let options = SweepOptions { catalogue: Arc::clone(&catalogue), ..options(&ledger_path, 1) };
        let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice::h200(7));
        let cache = cache(&problem, &options, &mut runner);
        time_all(&problem, &options, cache, (1, 1), &mut |_| ControlFlow::Continue(())).unwrap();
        let (records, _) = ledger::read(&ledger_path).unwrap();
        let mut variants: BTreeMap<String, u32> = BTreeMap::new();
        for entry in &records.as_slice()[before..] {
            let Record::Trial(trial) = &entry.record else { continue };
            let Job::Kernel { site, kernel } = &trial.identity.tried else { continue };
            let name = format!("{}/{}", site.key.op, kernel.variant);
            *variants.entry(name).or_default() += u32::from(trial.outcome.is_known());
        }
        variants
    };
    let first = timed(catalogue::embedded());
    assert!(first.len() > 20 && first["matmul/naive"] > 0);
    std::fs::write(ops.join("another.wgsl"), &text).unwrap();
    let added = timed(catalogue::with_folder(&folder.path().join("kernels")).unwrap());
    let ops_of = |variants: &BTreeMap<String, u32>| variants.keys().cloned().collect::<Vec<_>>();
    assert_eq!(ops_of(&added), ["matmul/another", "matmul_add/another"]);
    // A comment makes no other kernel.
    std::fs::write(ops.join("naive.wgsl"), format!("{text}// edited\n")).unwrap();
    assert!(timed(catalogue::with_folder(&folder.path().join("kernels")).unwrap()).is_empty());
    std::fs::write(ops.join("naive.wgsl"), text.replace("var sum = 0.0;", "var sum = 1.0;")).unwrap();
    let edited = timed(catalogue::with_folder(&folder.path().join("kernels")).unwrap());
    assert_eq!(ops_of(&edited), ["matmul/naive", "matmul_add/naive"]);
    assert_eq!(edited["matmul/naive"], first["matmul/naive"]);
}

#[test]
fn megakernels_that_do_not_run_and_wrong_kernels_win_nothing() {
    let device = SimulatedDevice { resident: 0, wrong: 0.4, ..SimulatedDevice::h200(3) };
    let (swept, events, _, times) = searched(device, 80);
    assert!(swept.plan.persistent.is_none());
    let is_merged = |candidate: &Candidate| matches!(candidate, Candidate::Persistent { .. } | Candidate::Move(_));
    let merged = events
        .iter()
        .filter(|e| matches!(e, Event::Done(SweepStep::Compared { candidate, .. }) if is_merged(candidate)));
    assert_eq!(merged.count(), 0);
    assert!(times.into_iter().all(|(default, tuned)| tuned < 1.01 * default), "{times:?}");
}

#[test]
fn noise_alone_makes_no_plan_slower() {
    // Nothing to find, and samples that scatter by 5 %, one like the other.
    let device = SimulatedDevice {
        spread: 0.0,
        interaction: 0.0,
        noise: 0.05,
        autocorrelation: 0.7,
        ..SimulatedDevice::h200(5)
    };
    let (_, _, _, times) = searched(device, 80);
    assert!(times.into_iter().all(|(default, tuned)| tuned < 1.01 * default), "{times:?}");
}

#[test]
fn a_stopped_search_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let (problem, catalogue) = (problem("0.1B", Format::F16), catalogue::embedded());
    let options = options(&folder.path().join("ledger.jsonl"), 80);
    let mut steps = 0;
    let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice::h200(1));
    let stopped = search(&problem, &options, cache(&problem, &options, &mut runner), &mut |event| {
        steps += usize::from(matches!(event, Event::Done(_)));
        if steps < 12 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert!(matches!(stopped, Err(SweepError::Stopped)), "{stopped:?}");
    let (before, notices) = ledger::read(&options.ledger).unwrap();
    assert!(notices.is_empty() && before.interrupted().count() == 0, "{notices:?}");

    let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice::h200(1));
    let second =
        search(&problem, &options, cache(&problem, &options, &mut runner), &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(second.recalled >= 10, "{} recalled", second.recalled);
    let (after, _) = ledger::read(&options.ledger).unwrap();
    assert_eq!(after.as_slice()[..before.as_slice().len()], *before.as_slice());
    // Nothing that has an outcome was run again, but for the control kernel; kernels that are compiled ahead are others
    // each time.
    let jobs = after
        .trials()
        .filter(|(_, trial)| !matches!(trial.outcome, Outcome::Intent | Outcome::Control(_) | Outcome::Done));
    let mut keys: Vec<String> = jobs.map(|(_, trial)| trial.identity.key()).collect();
    let all = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), all);

    // All known, a search takes no time at all but for the control kernel.
    let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice::h200(1));
    let third =
        search(&problem, &options, cache(&problem, &options, &mut runner), &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(third.recalled > second.recalled && third.measured > 0);
}

#[test]
fn an_interrupted_search_leaves_its_best_plan() {
    let folder = tempfile::tempdir().unwrap();
    let (problem, catalogue) = (problem("0.1B", Format::F16), catalogue::embedded());
    let options = options(&folder.path().join("ledger.jsonl"), 120);
    let policy = Policy { allowed: options.allowed, ..Policy::all() };
    let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice::h200(4));
    let mut bests = Vec::new();
    let stopped = search(&problem, &options, cache(&problem, &options, &mut runner), &mut |event| {
        let (records, _) = ledger::read(&options.ledger).unwrap();
        bests.push(best_so_far(&records, &catalogue, &options.objective, &policy).unwrap());
        if matches!(event, Event::Stage { stage: Stage::Kernels, .. }) {
            options.cancel.cancel();
        }
        ControlFlow::Continue(())
    });
    // No job begins after it was cancelled.
    assert!(matches!(stopped, Err(SweepError::Stopped)), "{stopped:?}");
    let (records, _) = ledger::read(&options.ledger).unwrap();
    assert_eq!(records.interrupted().count(), 0);
    assert!(bests[0].is_none(), "a plan before anything was measured");
    let best = bests.last().unwrap().as_ref().unwrap();
    assert_ne!(best.hash(), problem.default.hash());
    assert_eq!(best.evidence.as_ref().unwrap().quality_hash, "0123456789abcdef", "it has not passed the gate");
    let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice::h200(4));
    let mut ns = |plan| runner.true_ns(plan, Scenario::DECODE).unwrap();
    assert!(ns(best) < ns(&problem.default));
}

/// A device that has no time for starts of processes.
struct NoStarts<'a>(SimulatedRunner<'a>);

impl Runner for NoStarts<'_> {
    fn run(&mut self, assignment: Assignment<'_>) -> Result<(Outcome, Cost), RunnerError> {
        match assignment.job {
            Job::Confirm { scenario, .. } if scenario.from_start => Ok((Outcome::Interrupted, Cost::default())),
            _ => self.0.run(assignment),
        }
    }

    fn compile_ahead(&mut self, site: &InstanceGroup, kernels: &[Configured]) -> Result<(Outcome, Cost), RunnerError> {
        self.0.compile_ahead(site, kernels)
    }

    fn spent(&self) -> Duration {
        self.0.spent()
    }

    fn clock(&self) -> ledger::Clock {
        self.0.clock()
    }

    fn start(&self) -> Option<Duration> {
        self.0.start()
    }
}

#[test]
fn a_plan_is_kept_without_time_for_first_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let (problem, catalogue) = (problem("0.1B", Format::Q8_0), catalogue::embedded());
    let objective = Objective::chat(false);
    let options = SweepOptions { objective, ..options(&folder.path().join("ledger.jsonl"), 300) };
    let mut runner = NoStarts(SimulatedRunner::new(&problem, &catalogue, SimulatedDevice::h200(0)));
    let mut untried = Vec::new();
    let swept = search(&problem, &options, cache(&problem, &options, &mut runner), &mut |event| {
        untried.extend(if let Event::Note(Note::Untried(names)) = event { names } else { Vec::new() });
        ControlFlow::Continue(())
    });
    let plan = swept.unwrap().plan;
    assert_ne!(plan.hash(), problem.default.hash());
    let evidence = plan.evidence.unwrap().scenarios;
    assert!(!evidence.is_empty() && evidence.iter().all(|scenario| scenario.scenario != "first token"));
    assert!(untried.iter().any(|name| name == "first token after 32"), "{untried:?}");
}

#[test]
fn a_plan_is_derived_from_its_ledger_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let (problem, catalogue) = (problem("0.1B", Format::F16), catalogue::embedded());
    let options = options(&folder.path().join("ledger.jsonl"), 60);
    let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice::h200(4));
    let cache = cache(&problem, &options, &mut runner);
    let swept = search(&problem, &options, cache, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(!swept.plan.choices.is_empty(), "nothing was found");

    // Shuffled, split into two ledgers that share lines, and merged in either order.
    let text = std::fs::read_to_string(&options.ledger).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_by_key(|line| line.bytes().rev().map(u64::from).fold(0u64, |h, b| h.wrapping_mul(31) ^ b));
    let parts = [&lines[..lines.len() * 2 / 3], &lines[lines.len() / 3..]].map(|part| part.join("\n") + "\n");
    let read = |text: &String| {
        let path = folder.path().join("part.jsonl");
        std::fs::write(&path, text).unwrap();
        ledger::read(&path).unwrap().0
    };
    let derived = |records: &Records, policy: &Policy| derive(records, &catalogue, &options.objective, policy).unwrap();
    let all = Policy { allowed: options.allowed, ..Policy::all() };
    for order in [[0, 1], [1, 0]] {
        let merged = Records::merged(order.map(|i| read(&parts[i])));
        assert_eq!(merged.as_slice().len(), lines.len());
        assert_eq!(derived(&merged, &all).plan.hash(), swept.plan.hash());
    }

    // Whatever ids its records have, a plan's extended gate counts, and refuses it if it was not passed. In half of the
    // copies it comes before the first gate.
    let checked = |plan: &Plan| plan.evidence.as_ref().map(|evidence| evidence.checked);
    assert_eq!(checked(&swept.plan), Some(Checked { tokens: 4611, sequences: 128 }));
    let records = read(&text);
    for copy in 0..8_u32 {
        let passed = copy % 2 == 0;
        let path = folder.path().join(format!("copy-{copy}.jsonl"));
        let plan = derived(&with_other_ids(&records, &path, f64::from(copy), passed), &all).plan;
        assert_eq!(plan.hash() == swept.plan.hash(), passed, "{copy}");
        assert!(!passed || checked(&plan) == checked(&swept.plan), "{copy}");
    }

    // Under other rules: nothing that needs subgroups, and nothing that was not measured is said to be.
    let without = Policy { without: BTreeSet::from([Feature::Subgroups]), ..all };
    let plain = derived(&records, &without);
    let may_need =
        |choice: &Choice| catalogue.variant(&choice.key.op, &choice.variant).unwrap().may_need(Feature::Subgroups);
    assert!(!plain.plan.choices.iter().any(may_need) && plain.plan.hash() != swept.plan.hash());

    // An edited kernel loses its place: with one file changed, plans that name it are left out.
    let chosen = &swept.plan.choices[0];
    let edited = folder.path().join("kernels/ops").join(&chosen.key.op);
    std::fs::create_dir_all(&edited).unwrap();
    let file = edited.join(format!("{}.wgsl", chosen.variant));
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels-wgsl/ops");
    let source = kernels.join(&chosen.key.op).join(format!("{}.wgsl", chosen.variant));
    std::fs::write(&file, std::fs::read_to_string(&source).unwrap() + "const EDITED: u32 = 1u;\n").unwrap();
    let catalogue = catalogue::with_folder(&folder.path().join("kernels")).unwrap();
    let after = derive(&records, &catalogue, &options.objective, &all).unwrap();
    assert!(after.plan.choices.iter().all(|c| (&c.key.op, &c.variant) != (&chosen.key.op, &chosen.variant)));
    assert!(after.decisions.iter().any(|line| line.contains("was edited since")), "{:?}", after.decisions);
}

/// A copy of a ledger in which extended gates are later by some seconds, so that their records have other ids.
fn with_other_ids(records: &Records, path: &Path, later: f64, passed: bool) -> Records {
    let mut copy = Ledger::open(path).unwrap();
    for entry in records.as_slice() {
        let mut record = entry.record.clone();
        if let Record::Trial(trial) = &mut record
            && matches!(trial.identity.tried, Job::ExtendedGate { .. })
        {
            trial.at += later;
            if let Outcome::Gate(gate) = &mut trial.outcome {
                gate.passed = passed;
            }
        }
        copy.append(record).unwrap();
    }
    copy.records().clone()
}

#[test]
fn a_replayed_search_finds_its_plan_in_equal_time() {
    let folder = tempfile::tempdir().unwrap();
    let (problem, catalogue) = (problem("0.1B", Format::F16), catalogue::embedded());
    let measured = options(&folder.path().join("ledger.jsonl"), 60);
    let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice::h200(6));
    let go_on = &mut |_| ControlFlow::Continue(());
    let first = search(&problem, &measured, cache(&problem, &measured, &mut runner), go_on).unwrap();
    let spent = runner.spent();

    // Again with nothing but what the ledger says.
    let (records, _) = ledger::read(&measured.ledger).unwrap();
    let mut replay = ReplayRunner::new(&records);
    let replayed = options(&folder.path().join("replayed.jsonl"), 60);
    let second = search(&problem, &replayed, cache(&problem, &replayed, &mut replay), go_on).unwrap();
    assert_eq!(second.plan.hash(), first.plan.hash());
    assert_eq!((second.measured, replay.missing().len()), (first.measured, 0));
    assert!((replay.spent().as_secs_f64() - spent.as_secs_f64()).abs() < 1e-6, "{:?} {spent:?}", replay.spent());

    // Killed anywhere, often inside a line, and gone on with: the same jobs, none of them twice, and the same plan.
    let text = std::fs::read(&replayed.ledger).unwrap();
    let kills = std::env::var("WGOOSE_KILLS").map_or(3, |kills| kills.parse().unwrap());
    let mut rng = fastrand::Rng::with_seed(kills);
    for _ in 0..kills {
        let at = rng.usize(..text.len());
        let cut = options(&folder.path().join(format!("cut-{at}.jsonl")), 60);
        std::fs::write(&cut.ledger, &text[..at]).unwrap();
        let mut replay = ReplayRunner::new(&records);
        let resumed = search(&problem, &cut, cache(&problem, &cut, &mut replay), go_on).unwrap();
        assert!(replay.missing().is_empty(), "cut at {at}: {:?}", replay.missing().first());
        assert_eq!(resumed.plan.hash(), first.plan.hash(), "cut at {at}");
        assert_eq!(ended(&cut.ledger), ended(&replayed.ledger), "cut at {at}");
    }
}

/// How often each job has ended, but for those that are run again: kernels are compiled once more, and the control
/// tells of the machine.
fn ended(ledger: &Path) -> BTreeMap<String, u32> {
    let mut ended = BTreeMap::new();
    for (_, trial) in ledger::read(ledger).unwrap().0.trials() {
        if !matches!(trial.outcome, Outcome::Intent | Outcome::Control(_) | Outcome::Done) {
            *ended.entry(trial.identity.key()).or_default() += 1;
        }
    }
    ended
}
