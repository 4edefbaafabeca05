//! What a memo remembers of trials that took their process with them, and of those that were broken off.

use super::*;
use std::path::Path;
use wgoose_graph::ModelShape;
use wgoose_kernels::Limits;

/// A lab in which every job hangs.
struct Hanging {
    ran: usize,
    is_apart: bool,
}

impl Lab for Hanging {
    fn run(&mut self, _: Assignment<'_>) -> Result<(Outcome, Cost), LabError> {
        self.ran += 1;
        Ok((Outcome::failed(Cause::Timeout, "it did not end".to_owned()), Cost::default()))
    }

    fn compile_ahead(&mut self, _: &InstanceGroup, _: &[Configured]) -> Result<(Outcome, Cost), LabError> {
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

/// Plans that differ in their chunk, screened against one another; how many jobs were run.
fn screened(ledger: &Path, pairs: &[[u32; 2]]) -> usize {
    with_memo(ledger, false, |memo, plan| {
        for pair in pairs {
            let [a, b] = pair.map(plan);
            let failed = memo.screen([&a, &b], Scenario::DECODE).unwrap_err();
            assert!(matches!(failed, TrialError::Failed(Reason { cause: Cause::Timeout, .. })), "{failed}");
        }
    })
}

/// Does something with a memo and plans of that chunk; how many jobs were run.
fn with_memo(ledger: &Path, is_apart: bool, run: impl FnOnce(&mut Memo<'_>, &dyn Fn(u32) -> Plan)) -> usize {
    let text = || "made up".to_owned();
    let device =
        DeviceFingerprint { adapter: text(), vendor: 1, device: 2, driver: text(), backend: text(), wgpu: text() };
    let default = Plan::default_for(device.clone(), ModelShape::preset("0.1B").unwrap(), &Limits::webgpu());
    let plan = |prefill_chunk| Plan { prefill_chunk, ..default.clone() };
    let mut lab = Hanging { ran: 0, is_apart };
    run(&mut Memo::new(Ledger::open(ledger).unwrap(), device, Some(text()), &mut lab), &plan);
    lab.ran
}

/// A sweep that was killed leaves an intent. Where the trial runs in another process, it was not the trial that ended it.
#[test]
fn a_kill_is_held_against_a_trial_only_where_it_could_have_done_it() {
    for (is_apart, cause) in [(true, Cause::Timeout), (false, Cause::Crash)] {
        let folder = tempfile::tempdir().unwrap();
        let ledger = folder.path().join("ledger.jsonl");
        for _ in 0..3 {
            with_memo(&ledger, is_apart, |memo, plan| {
                let plans = [64, 128].map(|chunk| memo.know(&plan(chunk)).unwrap());
                let identity = memo.identity(&Job::Screen { plans, scenario: Scenario::DECODE });
                memo.begin_trial(&identity).unwrap();
            });
        }
        let ran = with_memo(&ledger, is_apart, |memo, plan| {
            let failed = memo.screen([&plan(64), &plan(128)], Scenario::DECODE).unwrap_err();
            assert!(matches!(failed, TrialError::Failed(ref reason) if reason.cause == cause), "{failed}");
        });
        assert_eq!(ran, usize::from(is_apart));
    }
}

#[test]
fn what_hung_is_not_run_again_whatever_it_is_compared_with() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger.jsonl");
    assert_eq!(screened(&ledger, &[[64, 128], [64, 128], [256, 128], [64, 512]]), 2);
    assert_eq!(screened(&ledger, &[[1024, 128], [64, 2048]]), 1);
}
