//! `wgoose dev trial`: the process in which `wgoose tune` runs its trials.

use crate::failure::Failure;
use crate::signals::OnSignal;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_bench::first_token;
use wgoose_loader::Model;
use wgoose_measure::job::{Configured, Cost, Job};
use wgoose_measure::ledger::{Clock, Outcome};
use wgoose_measure::runner::{Assignment, ChildCommand, Deadlines, GpuRunner, Runner, RunnerError, replay, serve};
use wgoose_measure::space::InstanceGroup;
use wgoose_plans::PlanChoice;
use wgoose_runtime::{Device, DeviceOptions};
use wgoose_session::Session;

/// Run trials for `wgoose tune`, as stdin asks for them; or run again one that failed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model file, or a folder with the shards of one.
    #[arg(required_unless_present = "replay")]
    model: Option<PathBuf>,
    /// Folder with the reference of the model.
    #[arg(long, default_value = ".")]
    reference: PathBuf,
    /// Multiprocessors of the device, which were counted.
    #[arg(long)]
    multiprocessors: Option<u32>,
    /// Adapter, as for `wgoose tune`.
    #[arg(long)]
    device: Option<String>,
    /// Abort where a kernel of this variant is to be checked: how tests see a process die.
    #[arg(long, hide = true)]
    abort_at: Option<String>,
    /// Run again what this folder of a ledger's `quarantine` holds: exits with 1 where it fails again.
    #[arg(long, value_name = "BUNDLE", exclusive = true)]
    replay: Option<PathBuf>,
    #[command(flatten)]
    kernels: crate::options::KernelOptions,
    #[command(flatten)]
    cache: crate::options::CacheOptions,
}

/// The command that runs the trials of a model on a device, which was opened with those options.
pub(crate) fn command(
    model: &Path,
    device: &Device,
    options: &DeviceOptions,
    (kernels, reference): (Option<&Path>, &Path),
    patience: Option<Duration>,
) -> Result<ChildCommand, Failure> {
    let mut command = ChildCommand::new(std::env::current_exe()?, model, (device, options), reference)?;
    command.deadlines = patience.map_or(command.deadlines, |seconds| Deadlines { compile: seconds, run: seconds });
    command.kernels = kernels.map(std::path::absolute).transpose()?;
    Ok(command)
}

pub(crate) fn run(args: &Args, started: Instant) -> Result<(), Failure> {
    let Some(path) = &args.model else { return run_again(args.replay.as_deref().unwrap_or(Path::new("."))) };
    // Signals are the parent's, which says what they mean for this process.
    let _ignored = OnSignal::call(|_| ControlFlow::Continue(()));
    let start = |plan: &Path, tokens, is_chosen: &mut dyn FnMut()| {
        let builder = Session::builder().device(args.device.clone()).pipeline_cache(args.cache.folder());
        let builder = builder.catalogue(args.kernels.catalogue_in_part()?).plan(PlanChoice::File(plan.to_owned()));
        Ok(first_token(builder, path, tokens, is_chosen)?)
    };
    serve(|| args.open(path, started), start)
}

impl Args {
    /// Opens a runner for a model.
    fn open(&self, path: &Path, started: Instant) -> Result<(Arc<Device>, Trials), Failure> {
        let catalogue = self.kernels.catalogue_in_part()?;
        let (adapter, cache) = (self.device.clone(), self.cache.folder());
        let options = DeviceOptions { adapter, cache, ..DeviceOptions::default() };
        let device = Device::open_limited(&options, &|limits| {
            limits.multiprocessors = self.multiprocessors.unwrap_or(limits.multiprocessors);
        })?;
        let model = Arc::new(Model::open(path)?);
        let runner = GpuRunner::of_trials(&device, &model, &catalogue, &self.reference, started)?;
        Ok((device, Trials { runner, abort_at: self.abort_at.clone() }))
    }
}

/// Runs a bundle again.
fn run_again(bundle: &Path) -> Result<(), Failure> {
    let (then, now) = replay(bundle, std::env::current_exe()?)?;
    outln!("then: {then}");
    match now {
        Outcome::Failed(now) => Err(format!("it fails again: {now}").into()),
        _ => {
            outln!("now: it does not fail");
            Ok(())
        }
    }
}

/// A runner that takes its process with it, if it is to.
struct Trials {
    runner: GpuRunner,
    abort_at: Option<String>,
}

impl Runner for Trials {
    fn run(&mut self, assignment: Assignment<'_>) -> Result<(Outcome, Cost), RunnerError> {
        match assignment.job {
            Job::Kernel { kernel, .. } if self.abort_at.as_ref() == Some(&kernel.variant) => std::process::abort(),
            _ => self.runner.run(assignment),
        }
    }

    fn compile_ahead(&mut self, site: &InstanceGroup, kernels: &[Configured]) -> Result<(Outcome, Cost), RunnerError> {
        self.runner.compile_ahead(site, kernels)
    }

    fn spent(&self) -> Duration {
        self.runner.spent()
    }

    fn clock(&self) -> Clock {
        self.runner.clock()
    }

    fn doubt(&self) -> Option<&str> {
        self.runner.doubt()
    }
}
