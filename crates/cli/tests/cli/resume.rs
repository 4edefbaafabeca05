//! A sweep that was killed in the middle resumes; its plan is found, and refused where it does not belong.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use wgoose_loader::Model;
use wgoose_plans::{Store, plan_name};
use wgoose_runtime::{DeviceOptions, FoundAdapter};
use wgoose_session::model_class;

fn wgoose(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wgoose"));
    command.current_dir(folder).args(words).env("WGOOSE_DATA_DIR", folder);
    command
}

fn succeed(mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Complete lines of the ledger.
fn lines(ledger: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(ledger).unwrap_or_default();
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    complete.lines().map(str::to_owned).collect()
}

/// The key and the outcome's kind of a line about a trial. Kernels compiled ahead are none: that measures nothing, and
/// each set of new kernels of a site has its own line.
fn trial(line: &str) -> Option<(String, String)> {
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    if line["identity"]["tried"]["job"] == "compile" {
        return None;
    }
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    Some((text(&line["key"])?, text(&line["outcome"]["kind"])?))
}

/// Whether a process has an argument with that folder, where the system tells.
fn runs_anything_in(folder: &Path) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let arguments = processes.filter_map(|process| std::fs::read(process.ok()?.path().join("cmdline")).ok());
    let folder = folder.to_string_lossy().into_owned();
    arguments.into_iter().any(|arguments| String::from_utf8_lossy(&arguments).contains(&folder))
}

/// Ctrl-C and SIGTERM are no crash: what they broke off is tried again, however often.
#[cfg(unix)]
#[test]
fn an_interrupted_sweep_says_so_and_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let shape = "dev synth m.gguf --layers 2 --width 64 --ffn 128 --vocab 300 --ranks 16,16,16,16 --mix F16";
    succeed(wgoose(folder, &shape.split(' ').collect::<Vec<_>>()));
    let (ledger, plan) = (folder.join("plan.jsonl"), folder.join("plan.ron"));
    let tune = |budget| ["tune", "m.gguf", "--budget", budget, "--out", "plan.ron"];
    for (round, (signal, code)) in [("-INT", 130), ("-TERM", 143), ("-TERM", 143)].into_iter().enumerate() {
        let mut command = wgoose(folder, &tune("3600"));
        let before = lines(&ledger).len();
        let mut sweep = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        // The gate comes first, and takes long enough to be broken off.
        let is_gate = |line: &String| line.contains("\"job\":\"gate\"");
        while !lines(&ledger)[before..].iter().any(is_gate) {
            assert!(sweep.try_wait().unwrap().is_none(), "the sweep ended before it could be interrupted");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(Command::new("kill").args([signal, &sweep.id().to_string()]).status().unwrap().success());
        let ended = sweep.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(code), "{round}: {said}");
        let last = said.lines().last().unwrap();
        assert!(last.starts_with("wgoose: interrupted: ") && last.contains("plan.jsonl"), "{said}");
        assert_eq!(last.contains("the best plan so far is"), plan.exists(), "{said}");
    }
    let failed = |line: &String| trial(line).is_some_and(|(_, kind)| kind == "failed");
    assert!(!lines(&ledger).iter().any(failed), "an interruption is a failure");
    assert!(lines(&ledger).iter().any(|line| trial(line).is_some_and(|(_, kind)| kind == "interrupted")));
    succeed(wgoose(folder, &tune("2")));
    assert!(plan.exists());
}

/// The jobs that ended by these lines of a ledger, and how often each did.
fn ended(lines: &[String]) -> BTreeMap<String, u32> {
    let mut ended: BTreeMap<String, u32> = BTreeMap::new();
    for (key, kind) in lines.iter().filter_map(|line| trial(line)) {
        // Kernels of a site are compiled ahead several times, others each time.
        if !["intent", "control", "interrupted", "done"].contains(&kind.as_str()) {
            *ended.entry(key).or_default() += 1;
        }
    }
    ended
}

#[test]
fn a_killed_sweep_resumes_and_its_plan_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let shape = "dev synth m.gguf --layers 2 --width 64 --ffn 128 --vocab 300 --ranks 16,16,16,16 --mix F16";
    succeed(wgoose(folder, &shape.split(' ').collect::<Vec<_>>()));
    // The first one has time for more than it is left to do, the second is to end.
    std::fs::write(folder.join("decode.ron"), "(name: \"decode\", parts: [(tokens: 1)])").unwrap();
    let tune = |budget| ["tune", "m.gguf", "--workload", "decode.ron", "--budget", budget];
    let model = Model::open(folder.join("m.gguf")).unwrap();
    let store = Store::at(folder.join("plans"));
    let found = FoundAdapter::find(&DeviceOptions::default()).unwrap();
    let name = plan_name(&found.summary().fingerprint, &model_class(&model));
    let (ledger, plan) = (store.ledger(&name), store.path(&name));

    let mut first = wgoose(folder, &tune("3600")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while ended(&lines(&ledger)).len() < 12 {
        assert!(first.try_wait().unwrap().is_none(), "the sweep ended before it could be killed");
        std::thread::sleep(Duration::from_millis(5));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let before = lines(&ledger);
    assert!(!plan.exists());
    // The process that ran its trials ends too.
    let killed = Instant::now();
    while runs_anything_in(folder) {
        assert!(killed.elapsed() < Duration::from_secs(600), "its trials go on");
        std::thread::sleep(Duration::from_millis(20));
    }

    let second = succeed(wgoose(folder, &tune("6")));
    let said = String::from_utf8_lossy(&second.stdout).into_owned();
    let recalled: usize = said.split("measured, ").nth(1).and_then(|s| s.split(' ').next()).unwrap().parse().unwrap();
    assert!(recalled > 0, "{said}");
    let after = lines(&ledger);
    assert_eq!(after[..before.len()], before[..], "what was acknowledged has changed");

    // No job that had ended was run again; the control kernel is timed again and again, that is its use.
    let ended = ended(&after);
    let twice: Vec<_> = ended.iter().filter(|(_, n)| **n > 1).collect();
    assert!(twice.is_empty(), "measured twice ({} lines were there before): {twice:#?}", before.len());

    let verified = succeed(wgoose(folder, &["verify", "m.gguf", "--cache", "plans"]));
    let found = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(found.contains("plan: tuned ") && found.contains(" (store)"), "{found}");
    let generate = ["generate", "m.gguf", "--plan", "foreign.ron", "--prompt", "a", "--max-tokens", "2"];
    let plan = std::fs::read_to_string(plan).unwrap();
    std::fs::write(folder.join("foreign.ron"), plan.replacen("vendor: ", "vendor: 9", 1)).unwrap();
    let refused = wgoose(folder, &generate).output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("another device: vendor"), "{why}");
    succeed(wgoose(folder, &[&generate[..], &["--foreign-plan"]].concat()));
}
