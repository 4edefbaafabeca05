//! An experiment with its progress on stderr: what `wgoose compare` and `wgoose dev experiment run` share.

use crate::failure::{Failure, Interrupted};
use crate::options::CacheOptions;
use crate::progress::{Moving, note};
use crate::signals::OnSignal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use wgoose_measure::experiment::{Arm, Doing, ExperimentError, Findings, Measuring};
use wgoose_measure::ledger::{ImpossibleArm, Ledger};
use wgoose_measure::objective::Objective;
use wgoose_measure::result_cache::TrialError;
use wgoose_measure::runner::RunnerError;
use wgoose_measure::scenario::Scenario;
use wgoose_runtime::CancelToken;
use wgoose_runtime::{Device, DeviceOptions, kernel_bench::open_measured};
use wgoose_session::printable;
use wgoose_tuner::arms::tune_arms;

/// Where experiments run, and what is kept of them.
#[derive(clap::Args)]
pub(crate) struct BenchOptions {
    /// GPU adapter: an index, PCI address, UUID or name from `wgoose devices`, an unambiguous part of a name, or a
    /// backend: vulkan, metal, dx12, gl.
    #[arg(long)]
    device: Option<String>,
    /// Timeout for one GPU submission, in seconds. Default: 120; 3600 on a device that a CPU emulates.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    patience: Option<u64>,
    #[command(flatten)]
    cache: CacheOptions,
}

/// A device, and folders for what can be made again.
pub(crate) struct Workbench {
    pub(crate) device: Arc<Device>,
    /// Folder where references and synthetic models are kept.
    pub(crate) kept: PathBuf,
    /// It is removed with this, if nothing is to be kept.
    _temporary: Option<TempDir>,
}

impl BenchOptions {
    /// Opens the device.
    pub(crate) fn open(&self) -> Result<Workbench, Failure> {
        let (adapter, cache) = (self.device.clone(), self.cache.folder());
        let patience = self.patience.map(Duration::from_secs);
        let options = DeviceOptions { adapter, cache: cache.clone(), patience, ..DeviceOptions::default() };
        let device = open_measured(&options)?;
        let temporary = if cache.is_none() { Some(TempDir::new()?) } else { None };
        let folder = cache.or_else(|| temporary.as_ref().map(|folder| folder.path().to_owned())).unwrap_or_default();
        Ok(Workbench { device, kept: folder.join("experiments"), _temporary: temporary })
    }
}

/// What is measured.
pub(crate) struct Question<'a> {
    /// What it is called.
    pub(crate) name: &'a str,
    /// Content hash of its declaration, if it has one.
    pub(crate) declaration: Option<String>,
    /// The baseline, then what is held against it.
    pub(crate) arms: &'a [Arm],
    /// Arms that the device cannot have.
    pub(crate) left_out: &'a [ImpossibleArm],
    /// What is timed.
    pub(crate) objective: &'a Objective,
    /// Time for the samples.
    pub(crate) budget: Duration,
}

/// Finds kernels for each arm; what goes on is shown on a terminal.
pub(crate) fn tune(
    bench: &Workbench,
    arms: &mut [Arm],
    scenarios: &[Scenario],
    (ledger, budget): (Ledger, Duration),
) -> Result<(), Failure> {
    let cancel = CancelToken::default();
    let _on_signal = OnSignal::cancel(&cancel);
    let bar = Moving::bar(0, "{pos}/{len} {elapsed} {wide_msg}")?;
    let tuned = tune_arms(&bench.device, arms, scenarios, (ledger, budget, cancel), &mut |key, done, of| {
        bar.done_of(done as u64, of as u64);
        bar.say(&format!("tuning {key}"));
    });
    tuned.map_err(failure)
}

fn failure(error: ExperimentError) -> Failure {
    match error {
        ExperimentError::Trial(TrialError::Runner(RunnerError::Interrupted)) => {
            Interrupted("nothing is reported of a part of an experiment".to_owned()).into()
        }
        error => error.into(),
    }
}

/// Measures; what goes on is shown on a terminal, what was refused is said. Ctrl-C ends it between two comparisons, a
/// second one at once.
pub(crate) fn measure(bench: &Workbench, question: Question<'_>, ledger: Ledger) -> Result<Findings, Failure> {
    let cancel = CancelToken::default();
    let _on_signal = OnSignal::cancel(&cancel);
    ledger.notices().iter().for_each(|notice| note(&printable(&notice.to_string())));
    let Question { name: experiment, declaration, arms, left_out, objective, budget } = question;
    let (device, version) = (&bench.device, crate::version());
    let references = &*bench.kept;
    let measuring =
        Measuring { device, arms, left_out, objective, experiment, declaration, references, budget, version, cancel };
    let bar = Moving::bar(0, "{pos}/{len} {elapsed} {wide_msg}")?;
    let findings = measuring.run(ledger, &mut |doing| match doing {
        Doing::Checking(arm) => bar.say(&format!("{}: held against the reference", printable(arm))),
        Doing::Refused(arm, reason) => note(&printable(&format!("{arm} is refused: {reason}"))),
        Doing::Timing { arm, scenario, done, of } => {
            bar.done_of(done as u64, of as u64);
            bar.say(&format!("{}, {scenario}", printable(arm)));
        }
    });
    findings.map_err(failure)
}
