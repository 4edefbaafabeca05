//! The cache remembers trials that took their process with them, and trials that were broken off.

use super::*;
use crate::ledger::{Gate, Timing};
use std::path::Path;
use wgoose_graph::ModelShape;
use wgoose_kernels::Limits;

/// A runner in which every job ends alike.
struct Alike {
    outcome: Outcome,
    ran: usize,
    is_apart: bool,
}

impl Runner for Alike {
    fn run(&mut self, _: Assignment<'_>) -> Result<(Outcome, Cost), RunnerError> {
        self.ran += 1;
        Ok((self.outcome.clone(), Cost::default()))
    }

    fn compile_ahead(&mut self, _: &InstanceGroup, _: &[Configured]) -> Result<(Outcome, Cost), RunnerError> {
        Ok((Outcome::Done, Cost::default()))
    }

    fn spent(&self) -> Duration {
        Duration::ZERO
    }

    fn clock(&self) -> Clock {
        Clock::Wall
    }

    fn is_apart(&self) -> bool {
        self.is_apart
    }
}

fn text() -> String {
    "made up".to_owned()
}

fn device() -> DeviceFingerprint {
    DeviceFingerprint { adapter: text(), vendor: 1, device: 2, driver: text(), backend: text(), wgpu: text() }
}

/// Plans that differ in their chunk, screened against one another; how many jobs were run.
fn screened(ledger: &Path, pairs: &[[u32; 2]]) -> usize {
    with_memo(ledger, false, |cache, plan| {
        for pair in pairs {
            let [a, b] = pair.map(plan);
            let failed = cache.screen([&a, &b], Scenario::DECODE).unwrap_err();
            assert!(matches!(failed, TrialError::Failed(Reason { cause: Cause::Timeout, .. })), "{failed}");
        }
    })
}

/// Does something with a cache and plans of that chunk; how many jobs were run.
fn with_memo(ledger: &Path, is_apart: bool, run: impl FnOnce(&mut ResultCache<'_>, &dyn Fn(u32) -> Plan)) -> usize {
    let device = device();
    let default = Plan::default_for(device.clone(), ModelShape::preset("0.1B").unwrap(), &Limits::webgpu());
    let plan = |prefill_chunk| Plan { prefill_chunk, ..default.clone() };
    let outcome = Outcome::failed(Cause::Timeout, "it did not end".to_owned());
    let mut runner = Alike { outcome, ran: 0, is_apart };
    run(&mut ResultCache::new(Ledger::open(ledger).unwrap(), device, Some(text()), &mut runner), &plan);
    runner.ran
}

/// A sweep that was killed leaves an intent. Where the trial runs in another process, it was not the trial that ended
/// it.
#[test]
fn a_kill_counts_only_against_a_trial_that_could_have_caused_it() {
    for (is_apart, cause) in [(true, Cause::Timeout), (false, Cause::Crash)] {
        let folder = tempfile::tempdir().unwrap();
        let ledger = folder.path().join("ledger.jsonl");
        for _ in 0..3 {
            with_memo(&ledger, is_apart, |cache, plan| {
                let plans = [64, 128].map(|chunk| cache.know(&plan(chunk)).unwrap());
                let identity = cache.identity(&Job::Screen { plans, scenario: Scenario::DECODE });
                cache.begin_trial(&identity).unwrap();
            });
        }
        let ran = with_memo(&ledger, is_apart, |cache, plan| {
            let failed = cache.screen([&plan(64), &plan(128)], Scenario::DECODE).unwrap_err();
            assert!(matches!(failed, TrialError::Failed(ref reason) if reason.cause == cause), "{failed}");
        });
        assert_eq!(ran, usize::from(is_apart));
    }
}

/// A busy machine may make a runner choose another clock: times by it are others, failures are not.
#[test]
fn a_failure_by_either_clock_is_not_run_again() {
    let failed = Outcome::failed(Cause::WrongResult, "it is wrong".to_owned());
    for (outcome, is_recalled) in [(failed, true), (Outcome::Done, false)] {
        let folder = tempfile::tempdir().unwrap();
        with_memo(&folder.path().join("ledger.jsonl"), true, |cache, _| {
            let identity = cache.identity(&Job::Prepare { plans: Vec::new() });
            assert_eq!(identity.clock, Clock::Wall);
            cache.append(&Identity { clock: Clock::Timestamps, ..identity.clone() }, None, outcome.clone()).unwrap();
            assert_eq!(cache.recall(&identity), is_recalled.then_some(outcome));
        });
    }
}

#[test]
fn a_hung_plan_is_not_screened_again() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger.jsonl");
    assert_eq!(screened(&ledger, &[[64, 128], [64, 128], [256, 128], [64, 512]]), 2);
    assert_eq!(screened(&ledger, &[[1024, 128], [64, 2048]]), 1);
}

/// A runner in which every job takes ten seconds.
#[derive(Default)]
struct Slow {
    spent: Duration,
    /// How long comparisons may take at most, one after the other.
    most: Vec<Option<Duration>>,
}

const TEN: Duration = Duration::from_secs(10);

impl Runner for Slow {
    fn run(&mut self, assignment: Assignment<'_>) -> Result<(Outcome, Cost), RunnerError> {
        self.spent += TEN;
        self.most.push(assignment.effort.most);
        let outcome = match assignment.job {
            Job::Gate { .. } => Outcome::Gate(Gate::passed([0.0; 2], String::new())),
            _ if assignment.effort.most.is_some_and(|most| most < TEN + TEN) => Outcome::Interrupted,
            _ => Outcome::Pair { samples_ns: [vec![2.0; 8], vec![1.0; 8]], repeats: 1, copies: 0 },
        };
        Ok((outcome, Cost::default()))
    }

    fn compile_ahead(&mut self, _: &InstanceGroup, _: &[Configured]) -> Result<(Outcome, Cost), RunnerError> {
        Ok((Outcome::Done, Cost::default()))
    }

    fn spent(&self) -> Duration {
        self.spent
    }

    fn clock(&self) -> Clock {
        Clock::Wall
    }
}

#[test]
fn cached_comparisons_alone_remain_once_the_time_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let device = device();
    let default = Plan::default_for(device.clone(), ModelShape::preset("0.1B").unwrap(), &Limits::webgpu());
    let plan = |prefill_chunk| Plan { prefill_chunk, ..default.clone() };
    // All but the last 30 of 200 s are spent.
    let mut runner = Slow { spent: 17 * TEN, ..Slow::default() };
    let ledger = Ledger::open(folder.path().join("ledger.jsonl")).unwrap();
    let mut cache = ResultCache::new(ledger, device, Some(text()), &mut runner);
    cache.end_at(20 * TEN);
    let compare = |cache: &mut ResultCache<'_>, chunk| {
        cache.steps([&plan(64), &plan(chunk)], Scenario::DECODE, false, Effort::usual(Duration::ZERO)).map(drop)
    };
    compare(&mut cache, 128).unwrap();
    // The gate of the default waits for the reference: it is made whenever it is asked for.
    cache.gate_in_any_case(&plan(64), false).unwrap();
    compare(&mut cache, 256).unwrap();
    // It is 200 s of 201: this one has until 211. It is broken off, and no failure.
    let late = |ended| matches!(ended, Err(TrialError::OutOfTime));
    cache.end_at(20 * TEN + Duration::from_secs(1));
    assert!(late(compare(&mut cache, 512)));
    assert!(late(compare(&mut cache, 512)), "it is not begun");
    assert!(
        late(cache.gate(&plan(128), false).map(drop))
            && late(cache.screen([&plan(64), &plan(512)], Scenario::DECODE).map(drop))
    );
    compare(&mut cache, 128).unwrap();
    cache.gate(&plan(64), false).unwrap();
    cache.gate_in_any_case(&plan(256), false).unwrap();
    // What has won has ten seconds more.
    cache.go_on();
    compare(&mut cache, 1024).unwrap();
    drop(cache);
    let most: Vec<Option<u64>> = runner.most.iter().map(|most| most.map(|most| most.as_secs())).collect();
    assert_eq!(most, [Some(40), Some(u64::MAX), Some(20), Some(11), Some(u64::MAX), Some(20)]);
}

/// A sweep that goes on chooses as the one that was interrupted would have: it learns from what it asked for, not from
/// all that is in the ledger.
#[test]
fn a_search_knows_only_the_kernels_it_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let device = device();
    let shape = ModelShape::preset("0.1B").unwrap();
    let fusions = Plan::default_fusions(false).decode;
    let sites = crate::space::groups(&shape, Scenario::DECODE, &fusions, &|_| wgoose_graph::Format::F16);
    let kernel = |variant: &str| Configured { variant: variant.to_owned(), config: BTreeMap::new(), text: text() };
    let timed = |asked: &[(usize, &str)]| {
        let ledger = Ledger::open(folder.path().join("ledger.jsonl")).unwrap();
        let timing = Timing { samples_ns: vec![99.0, 100.0, 104.0], repeats: 1, copies: 1, gate: None };
        let mut runner = Alike { outcome: Outcome::Kernel(timing), ran: 0, is_apart: false };
        let mut cache = ResultCache::new(ledger, device.clone(), Some(text()), &mut runner);
        for (site, variant) in asked {
            cache.kernel(&sites[*site], kernel(variant)).unwrap();
        }
        cache.timed(&sites[0])
    };
    let of = |variant: &str| (kernel(variant), 100.0);
    assert_eq!(timed(&[(0, "a"), (1, "b"), (0, "c")]), [of("a"), of("c")]);
    assert_eq!(timed(&[]), []);
    assert_eq!(timed(&[(1, "b"), (0, "c")]), [of("c")]);
}
