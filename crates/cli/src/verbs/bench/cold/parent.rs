//! The conditions, in turn, each in fresh processes that must all compute the same.

use super::child::Startup;
use super::options::ColdOptions;
use super::report::{ColdReport, Measured, Sample, Temperature};
use super::{pages, process};
use crate::failure::Failure;
use crate::options::{RunOptions, argument};
use crate::progress::Moving;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};
use wgoose_runtime::kernel_bench::upload::UploadRate;
use wgoose_runtime::{Device, kernel_bench};

/// The drivers' own shader caches, off: Mesa (<https://docs.mesa3d.org/envvars.html>), NVIDIA (README of the driver).
const DRIVER_CACHES_OFF: [(&str, &str); 2] = [("MESA_SHADER_CACHE_DISABLE", "true"), ("__GL_SHADER_DISK_CACHE", "0")];

/// Every condition with its samples, summed up, and the first start.
type Starts = (Vec<Measured>, Startup);

/// Measures every condition, and what uploading alone would take.
pub(super) fn measure(
    model: &Path,
    runs: u32,
    prompt_tokens: u32,
    cold: &ColdOptions,
    run: &RunOptions,
) -> Result<ColdReport, Failure> {
    let (conditions, first) = starts(model, runs, prompt_tokens, cold, run)?;
    let best = best_upload(model, run)?;
    let opened = run.session()?.open_file(model)?;
    Ok(ColdReport {
        at: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        model: model.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        fingerprint: opened.fingerprint().to_string(),
        file_bytes: opened.file_len() as u64,
        device: first.device,
        plan: first.plan,
        prompt_tokens,
        logits: first.logits,
        best_upload_gb_per_s: best.gb_per_s(),
        best_upload_staging: [best.staging.workers, best.staging.slots, best.staging.slot_bytes],
        conditions,
    })
}

/// Measures every condition `runs` times, after one start that is not counted. They take turns, so that a machine that
/// becomes slower does so for all of them.
pub(super) fn starts(
    model: &Path,
    runs: u32,
    prompt_tokens: u32,
    cold: &ColdOptions,
    run: &RunOptions,
) -> Result<Starts, Failure> {
    use Temperature::{Cold, Warm};
    let mut conditions = vec![Measured::new("warm", Warm, Warm), Measured::new("cold pipelines", Warm, Cold)];
    if cold.drop_page_cache {
        conditions.push(Measured::new("cold pages", Cold, Warm));
    }
    let kept = tempfile::tempdir()?;
    // Closed again: pages that are mapped stay in memory.
    let files: Vec<PathBuf> = run.session()?.open_file(model)?.files().map(Path::to_owned).collect();
    let starter = Starter { model, prompt_tokens, run };
    let mut first: Option<Startup> = None;
    let mut warned = BTreeSet::new();
    let bar =
        Moving::bar(u64::from(runs + 1) * conditions.len() as u64, "{pos}/{len} starts {elapsed} (left: {left})")?;
    let mut starts = 0;
    for round in 0..=runs {
        for condition in &mut conditions {
            starts += 1;
            bar.done(starts);
            if condition.not_measured.is_some() {
                continue;
            }
            let emptied = tempfile::tempdir()?;
            let pipelines = if condition.pipelines == Warm { kept.path() } else { emptied.path() };
            let resident_before = match pages::prepare(&files, condition.pages) {
                Ok(share) => share,
                Err(why) if condition.pages == Cold => {
                    condition.give_up(why);
                    continue;
                }
                Err(why) => return Err(why.into()),
            };
            let (sample, warnings) = starter.start(pipelines, None, resident_before)?;
            warned.extend(warnings.lines().map(str::to_owned));
            let first = first.get_or_insert_with(|| sample.startup.clone());
            agree(&first.logits, &sample.startup.logits, &format!("start {round} of '{}'", condition.name))?;
            if round > 0 {
                condition.samples.push(sample);
            }
        }
    }
    if let Some(timeline) = &cold.timeline {
        let resident = pages::prepare(&files, Warm)?;
        starter.start(kept.path(), Some(timeline), resident)?;
    }
    drop(bar);
    conditions.iter_mut().for_each(Measured::summarise);
    warned.iter().for_each(|line| eprintln!("{line}"));
    first.map(|first| (conditions, first)).ok_or_else(|| "nothing was measured".into())
}

/// The fastest upload of the model's matrices, over sizes of the staging ring, best of two each.
fn best_upload(model: &Path, run: &RunOptions) -> Result<UploadRate, Failure> {
    let model = run.session()?.open_file(model)?;
    let device = Device::open_with(&run.session()?.device_options())?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut best: Option<UploadRate> = None;
    for size in kernel_bench::upload::sizes(cores) {
        for _ in 0..2 {
            let rate = kernel_bench::upload::upload(&device, &model, size)?;
            tracing::info!("{size:?}: {:.2} GB/s", rate.gb_per_s());
            best = best.filter(|b| b.gb_per_s() >= rate.gb_per_s()).or(Some(rate));
        }
    }
    best.ok_or_else(|| "nothing was uploaded".into())
}

/// Every start must give the same bits: a cache that changes them is wrong, however fast.
fn agree(first: &str, now: &str, what: &str) -> Result<(), String> {
    if first == now {
        return Ok(());
    }
    Err(format!("wrong results: {what} gave other logits (hash {now}) than the first start ({first})"))
}

/// Starts fresh processes that differ in what is warm only.
struct Starter<'a> {
    model: &'a Path,
    prompt_tokens: u32,
    run: &'a RunOptions,
}

impl Starter<'_> {
    /// One start, and its warnings.
    fn start(
        &self,
        pipelines: &Path,
        timeline: Option<&Path>,
        resident_before: Option<f64>,
    ) -> Result<(Sample, String), Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("cold-child")
            .arg(argument("--model", self.model))
            .arg(argument("--prompt-tokens", self.prompt_tokens.to_string()))
            .arg(argument("--pipelines", pipelines))
            .args(timeline.map(|t| argument("--timeline", t)))
            .args(self.run.arguments())
            .envs(DRIVER_CACHES_OFF);
        let seen = process::watch(&mut command)?;
        let startup = serde_json::from_str(&seen.line).map_err(|e| format!("a fresh process said nonsense: {e}"))?;
        let sample = Sample {
            wall_ms: seen.wall.as_secs_f64() * 1e3,
            peak_anonymous_bytes: seen.peak_anonymous,
            peak_resident_bytes: seen.peak_resident,
            resident_before,
            startup,
        };
        Ok((sample, seen.warnings))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn logits_that_differ_between_starts_are_an_error() {
        assert!(super::agree("a", "a", "start 1").is_ok());
        let why = super::agree("a", "b", "start 1 of 'warm'").unwrap_err();
        assert_eq!(why, "wrong results: start 1 of 'warm' gave other logits (hash b) than the first start (a)");
    }
}
