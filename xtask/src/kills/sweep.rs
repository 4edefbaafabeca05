//! Sweeps for a plan, killed in jobs of every kind, again and again: nothing that was written is lost, nothing that
//! ended is run again, and the plan at the end is the one that the ledger says.

use crate::shell::{Error, Result, command};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Kinds of jobs, and seconds for which each is waited for: those of the end come when the rest is done.
const JOBS: [(&str, u64); 9] = [
    ("confirm", 600),
    ("gate", 600),
    ("steps", 20),
    ("prepare", 20),
    ("screen", 20),
    ("resident", 20),
    ("kernels", 20),
    ("compile", 20),
    ("kernel", 20),
];

/// Longest time into a job.
const INTO: Duration = Duration::from_millis(600);

/// Between two looks at the ledger.
const LOOK: Duration = Duration::from_millis(2);

/// What is run again by intention.
const AGAIN: [&str; 4] = ["intent", "interrupted", "control", "done"];

/// Kills sweeps so often in all: one until it ends by itself, then another one.
pub(super) fn kill(tool: &Path, folder: &Path, (model, options): (&Path, &str), kills: u32) -> Result<()> {
    let (mut killed, mut sweeps) = (BTreeMap::<String, u32>::new(), 0);
    let mut rng = fastrand::Rng::with_seed(u64::from(kills));
    let mut wanted = JOBS.into_iter().cycle();
    while killed.values().sum::<u32>() < kills {
        sweeps += 1;
        let folder = folder.join(sweeps.to_string());
        fs::create_dir_all(&folder).map_err(|e| Error::file("make", &folder, e))?;
        let sweep = Sweep { tool, folder: &folder, model, options };
        while killed.values().sum::<u32>() < kills {
            let Some(job) = wanted.next().map(|job| sweep.kill_in(job, &mut rng)).transpose()?.flatten() else { break };
            *killed.entry(job).or_default() += 1;
        }
        sweep.check()?;
    }
    println!("sweeps: {sweeps}, killed in {killed:?}: nothing lost, nothing twice, and the plans of their ledgers");
    Ok(())
}

/// A sweep in a folder of its own.
struct Sweep<'a> {
    tool: &'a Path,
    folder: &'a Path,
    model: &'a Path,
    options: &'a str,
}

impl Sweep<'_> {
    fn tune(&self) -> Command {
        let mut command = command(self.tool, ["tune"]);
        command.arg(self.model).args(["--out", "plan.ron", "--ledger", "plan.jsonl"]).current_dir(self.folder);
        command.args(self.options.split_whitespace());
        command.env("WGOOSE_CACHE_DIR", self.folder.join("cache"));
        command
    }

    fn lines(&self) -> Vec<String> {
        lines(&self.folder.join("plan.jsonl"))
    }

    /// Goes on and kills it in a job of a kind, or of any where it takes long to come to one. The kind; `None`: it has
    /// ended before.
    fn kill_in(&self, (wanted, seconds): (&str, u64), rng: &mut fastrand::Rng) -> Result<Option<String>> {
        let before = self.lines();
        let mut sweep = start(self.tune().stdout(Stdio::null()).stderr(Stdio::null()))?;
        let begun = Instant::now();
        let job = loop {
            let now = self.lines();
            let last = now[before.len().min(now.len())..].last().and_then(|line| begins(line));
            if let Some(job) = last.filter(|job| job == wanted || begun.elapsed().as_secs() > seconds) {
                break job;
            }
            if sweep.try_wait().is_ok_and(|status| status.is_some()) {
                return Ok(None);
            }
            sleep(LOOK);
        };
        sleep(INTO.mul_f64(rng.f64()));
        let _ = sweep.kill().and_then(|()| sweep.wait());
        let after = self.lines();
        if after.len() < before.len() || after[..before.len()] != before[..] {
            return Err(Error::Other(format!("killed in {job}: {} has lost lines", self.folder.display())));
        }
        Ok(Some(job))
    }

    /// Lets it end, and checks what it leaves.
    fn check(&self) -> Result<()> {
        let status = start(&mut self.tune())?.wait();
        if !status.is_ok_and(|status| status.success()) {
            return Err(Error::Other("a sweep that was killed does not end".into()));
        }
        let twice = twice(&self.lines());
        if !twice.is_empty() {
            return Err(Error::Other(format!("these ended twice: {twice:?}")));
        }
        let plan = |path: &str| {
            let path = self.folder.join(path);
            let text = fs::read_to_string(&path).map_err(|e| Error::file("read", &path, e))?;
            Ok::<_, Error>(text.split("evidence:").next().unwrap_or_default().to_owned())
        };
        let mut derive =
            command(self.tool, ["plans", "derive", "plan.jsonl", "--precision", "f16", "--out", "derived.ron"]);
        let derived = start(derive.current_dir(self.folder))?.wait().is_ok_and(|status| status.success());
        match derived && plan("plan.ron")? == plan("derived.ron")? {
            true => Ok(()),
            false => Err(Error::Other("the plan is not the one that its ledger says".into())),
        }
    }
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
