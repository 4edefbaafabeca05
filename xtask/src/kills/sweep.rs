//! One sweep for a plan, killed in jobs of every kind, again and again: nothing that was written is lost, nothing that ended is run
//! again, and the plan at the end is the one that the ledger says.

use crate::shell::{Error, Result, command};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Kinds of jobs, those that come late in a sweep first.
const JOBS: [&str; 9] = ["confirm", "gate", "steps", "prepare", "screen", "resident", "kernels", "compile", "kernel"];

/// How long a job of a kind is waited for: those of the end come when the rest is done.
const PATIENCE: Duration = Duration::from_secs(100);

/// Longest time into a job.
const INTO: Duration = Duration::from_millis(600);

/// Between two looks at the ledger.
const LOOK: Duration = Duration::from_millis(2);

/// What is run again by intention.
const AGAIN: [&str; 4] = ["intent", "interrupted", "control", "done"];

/// Kills it so often, then lets it end.
pub(super) fn kill(tool: &Path, folder: &Path, (model, options): (&Path, &str), kills: u32) -> Result<()> {
    let ledger = folder.join("plan.jsonl");
    let tune = || {
        let mut command = command(tool, ["tune"]);
        command.arg(model).args(["--out", "plan.ron", "--ledger", "plan.jsonl"]).current_dir(folder);
        command.args(options.split_whitespace());
        command.env("WGOOSE_CACHE_DIR", folder.join("cache"));
        command
    };
    let mut killed: BTreeMap<String, u32> = BTreeMap::new();
    let mut rng = fastrand::Rng::with_seed(u64::from(kills));
    for n in 0..kills {
        let before = lines(&ledger);
        let mut sweep = start(tune().stdout(Stdio::null()).stderr(Stdio::null()))?;
        let (begun, wanted) = (Instant::now(), JOBS[n as usize % JOBS.len()]);
        let job = loop {
            let now = lines(&ledger);
            let last = now[before.len().min(now.len())..].last().and_then(|line| begins(line));
            if let Some(job) = last.filter(|job| job == wanted || begun.elapsed() > PATIENCE) {
                break job;
            }
            if sweep.try_wait().is_ok_and(|status| status.is_some()) {
                break "ended".to_owned();
            }
            sleep(LOOK);
        };
        sleep(INTO.mul_f64(rng.f64()));
        let _ = sweep.kill().and_then(|()| sweep.wait());
        *killed.entry(job).or_default() += 1;
        let after = lines(&ledger);
        if after.len() < before.len() || after[..before.len()] != before[..] {
            return Err(Error::Other(format!("kill {n}: {} has lost lines", ledger.display())));
        }
    }
    let status = start(&mut tune())?.wait().map_err(|source| Error::Start { command: "tune".into(), source })?;
    if !status.success() {
        return Err(Error::Other(format!("after {kills} kills the sweep does not end ({status})")));
    }
    let twice = twice(&lines(&ledger));
    if !twice.is_empty() {
        return Err(Error::Other(format!("these ended twice: {twice:?}")));
    }
    let plan = |path: &str| {
        let text = fs::read_to_string(folder.join(path)).map_err(|e| Error::file("read", &folder.join(path), e))?;
        Ok::<_, Error>(text.split("evidence:").next().unwrap_or_default().to_owned())
    };
    let mut derive = command(tool, ["plan", "--from", "plan.jsonl", "--precision", "f16", "--out", "derived.ron"]);
    let derived = start(derive.current_dir(folder))?.wait().is_ok_and(|status| status.success());
    if !derived || plan("plan.ron")? != plan("derived.ron")? {
        return Err(Error::Other("the plan is not the one that its ledger says".into()));
    }
    println!("sweep    killed {kills} times, in {killed:?}: nothing lost, nothing twice, and the plan of its ledger");
    Ok(())
}

fn start(command: &mut Command) -> Result<std::process::Child> {
    command.spawn().map_err(|source| Error::Start { command: format!("{command:?}"), source })
}

/// Complete lines.
fn lines(ledger: &Path) -> Vec<String> {
    let text = fs::read_to_string(ledger).unwrap_or_default();
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    complete.lines().map(str::to_owned).collect()
}

/// The kind of the job that a line says begins.
fn begins(line: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    let job = line["identity"]["tried"]["job"].as_str()?;
    (line["outcome"]["kind"] == "intent").then(|| job.to_owned())
}

/// Jobs that ended more than once.
fn twice(lines: &[String]) -> BTreeSet<String> {
    let (mut ended, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for line in lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if let (Some(key), Some(kind)) = (line["key"].as_str(), line["outcome"]["kind"].as_str())
            && !AGAIN.contains(&kind)
            && !ended.insert(key.to_owned())
        {
            twice.insert(format!("{} {key}", line["identity"]["tried"]["job"]));
        }
    }
    twice
}
