//! Single stages of a search, on a made-up device.

use super::confirm::confirm;
use super::megakernel::find_forms::{FoundForm, deepen_phases, outlines, slows_prompts, with_kernels};
use super::megakernel::sampling::compare_likeliest;
use crate::sweep::changes::Toggle;
use crate::sweep::forms::Forms;
use crate::sweep::megakernel_step::weight;
use crate::sweep::strategy::Found;
use crate::sweep::task::Task;
use crate::sweep::trials::Trials;
use crate::sweep::{Candidate, Event, Listener, Part, STRATEGIES, SweepOptions, SweepStep};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use wgoose_graph::{Format, ModelShape, Weight};
use wgoose_kernels::Precision;
use wgoose_loader::synth::Mix;
use wgoose_measure::ledger::Ledger;
use wgoose_measure::problem::Problem;
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::{PersistentGrid, groups};
use wgoose_plans::catalogue;
use wgoose_runtime::CancelToken;
use wgoose_sim::{Costs, SimulatedDevice, SimulatedRunner, simulated_problem};

const GRID: PersistentGrid = PersistentGrid { workgroups: 132, threads: 512 };

fn problem(mix: Mix) -> Problem {
    let shape = ModelShape::preset("0.1B").unwrap();
    simulated_problem(shape, Weight::all(&shape).map(|weight| (weight, mix.in_gguf(weight))).collect())
}

/// A search of so many seconds that has not begun, on a device; what it told, in the end.
fn with_trials(
    problem: &Problem,
    device: SimulatedDevice,
    budget: u64,
    run: impl FnOnce(&mut Trials<'_>),
) -> Vec<Event> {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = catalogue::embedded();
    let options = SweepOptions {
        ledger: folder.path().join("ledger.jsonl"),
        begun: Instant::now(),
        budget: Duration::from_secs(budget),
        parts: Part::ALL.into(),
        exhaustive: false,
        chunks: vec![256],
        objective: "(name: \"test\", parts: [(tokens: 1), (tokens: 32), (tokens: 512)])".parse().unwrap(),
        persistent: true,
        catalogue: catalogue.clone(),
        allowed: Precision::F16,
        child: None,
        strategy: STRATEGIES[0],
        in_use: None,
        seeds: Vec::new(),
        hints: Vec::new(),
        cancel: CancelToken::default(),
    };
    let mut runner = SimulatedRunner::new(problem, &catalogue, device);
    let ledger = Ledger::open(&options.ledger).unwrap();
    let mut cache = ResultCache::new(ledger, problem.default.device.clone(), Some(problem.model.clone()), &mut runner);
    let task = Task { problem, options: &options };
    cache.begin(task.session(None)).unwrap();
    let mut events = Vec::new();
    let listen: Listener<'_> = &mut |event| {
        events.push(event);
        ControlFlow::Continue(())
    };
    run(&mut Trials::new(task, cache, None, listen));
    events
}

/// The fully fused merged form, with kernels: there is little time for stages, then enough for what runs beside them.
fn found(trials: &mut Trials<'_>, forms: &mut Forms) -> Vec<FoundForm> {
    let task = trials.task();
    let mut fused = task.problem.default.clone();
    fused.fusions.decode.append(&mut task.bindable_fusions());
    let mut found = Vec::new();
    for seconds in [5, 25] {
        let outlines = outlines(task, &fused, &[GRID], &[], &[vec![]]);
        found = with_kernels(trials, &task.tuner(), forms, outlines, Duration::from_secs(seconds)).unwrap();
    }
    assert_eq!(found.len(), 1);
    found
}

#[test]
fn little_known_sites_are_timed_more() {
    let problem = problem(Mix::F16);
    with_trials(&problem, SimulatedDevice::h200(1), 300, |trials| {
        let (tuner, mut forms) = (trials.task().tuner(), Forms::new());
        let found = found(trials, &mut forms);
        let timed = |forms: &Forms, op: &str| {
            let pools = forms.pools.iter().filter(|pool| pool.group.key.op == op);
            let known = pools.map(|pool| (pool.timed, pool.timed as f64 / weight(&pool.group)));
            known.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
        };
        let before = ["norm_matmul", "lora_up"].map(|op| timed(&forms, op));
        assert!(before[1].1 < 0.9 * before[0].1, "{before:?}: these say nothing");
        let until = trials.spent() + Duration::from_secs(8);
        deepen_phases(trials, &tuner, &mut forms, &found, until).unwrap();
        let after = ["norm_matmul", "lora_up"].map(|op| timed(&forms, op));
        assert_eq!(after[0], before[0]);
        assert!(after[1].0 >= 2 * before[1].0, "{before:?} {after:?}");
    });
}

/// A plan loses the kernels tuned for its layout if the layout changes.
#[test]
fn layouts_that_slow_prefill_are_recognised() {
    let problem = problem(Mix::Q8_0);
    let (prompt, layout) = (Scenario::prefill(512), Toggle::Interleaved(Format::Q8_0));
    let mut seen = BTreeSet::new();
    for seed in [1, 2] {
        let device = SimulatedDevice { noise: 0.009, instance: 0.009, ..SimulatedDevice::h200(seed) };
        let (mut tuned, mut is_slower) = (problem.default.clone(), false);
        with_trials(&problem, device.clone(), 300, |trials| {
            assert!(!slows_prompts(trials, &tuned, layout).unwrap(), "seed {seed}");
            let (tuner, formats) = (trials.task().tuner(), problem.formats_on_gpu(&problem.default));
            let sites = groups(&problem.shape, prompt, &problem.default.fusions.prefill, &formats);
            for site in sites.iter().filter(|site| site.key.formats.contains(&Format::Q8_0)) {
                let found = tuner.tune(site, trials.jobs(), Duration::from_secs(20)).unwrap();
                found.winner.into_iter().for_each(|winner| tuned.adopt(winner));
            }
            is_slower = slows_prompts(trials, &tuned, layout).unwrap();
        });
        let catalogue = catalogue::embedded();
        let mut runner = SimulatedRunner::new(&problem, &catalogue, device);
        let mut changed = tuned.clone();
        layout.apply(&mut changed);
        let truth = runner.true_ns(&changed, prompt).unwrap() / runner.true_ns(&tuned, prompt).unwrap();
        assert_eq!(is_slower, truth > 1.02, "seed {seed}: {truth} times as long");
        seen.insert(is_slower);
    }
    assert_eq!(seen.len(), 2, "these say nothing");
}

#[test]
fn the_plan_with_the_fastest_samples_is_compared_despite_the_posterior() {
    let (problem, catalogue) = (problem(Mix::F16), catalogue::embedded());
    let mut odd = None;
    let events = with_trials(&problem, SimulatedDevice::h200(1), 300, |trials| {
        let (tuner, mut forms) = (trials.task().tuner(), Forms::new());
        forms.all = found(trials, &mut forms).into_iter().map(|found| found.form).collect();
        let best = forms.best(&forms.model.likeliest(), problem.limits.workgroup_memory, &|_| true).unwrap();
        let site = forms.chosen(&best).iter().position(|(pool, _)| forms.pools[*pool].kernels.len() > 1).unwrap();
        let mut slow = best.clone();
        slow.kernels[site] = usize::from(slow.kernels[site] == 0);
        let mut plan = forms.plan(&best, &catalogue).unwrap();
        odd = forms.plan(&slow, &catalogue).unwrap().choices.into_iter().find(|choice| !plan.choices.contains(choice));
        let seen = [(best.clone(), 0.0), (slow, 1.0)];
        compare_likeliest(trials, &tuner, &mut plan, &forms, (&best, &seen)).unwrap();
    });
    let odd = odd.unwrap();
    let is_compared = |event: &Event| match event {
        Event::Done(SweepStep::Compared { candidate: Candidate::Move(choices), .. }) => choices.contains(&odd),
        _ => false,
    };
    assert!(events.iter().any(is_compared), "{events:?}");
}

/// In a short time the comparison that finds out what won may leave no time for a process that confirms it.
#[test]
fn a_winner_of_a_short_search_is_confirmed_after_its_time() {
    let (problem, catalogue) = (problem(Mix::F16), catalogue::embedded());
    let usual = SimulatedDevice::h200(1);
    let device = SimulatedDevice { costs: Costs { start: 8.0, ..usual.costs }, ..usual };
    with_trials(&problem, device, 20, |trials| {
        let mut forms = Forms::new();
        forms.all = found(trials, &mut forms).into_iter().map(|found| found.form).collect();
        let best = forms.best(&forms.model.likeliest(), problem.limits.workgroup_memory, &|_| true).unwrap();
        let best = forms.plan(&best, &catalogue).unwrap();
        let now = trials.spent();
        trials.jobs().end_at(now);
        let alone = vec![Scenario::DECODE];
        let structure = problem.default.clone();
        let found = Found { structure, plan: best.clone(), alone, without_op: Vec::new() };
        let plan = confirm(trials, found).unwrap();
        assert_eq!(plan.hash(), best.hash());
    });
}
