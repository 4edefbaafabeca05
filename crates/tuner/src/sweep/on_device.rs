//! Sweeps on a device: its runner, in this process or in a child process, and the ledger.

use super::error::SweepError;
use super::event::{Event, Listener, Note, tell};
use super::options::SweepOptions;
use super::search::{Swept, search};
use super::survey::time_all;
use std::path::PathBuf;
use std::sync::Arc;
use wgoose_loader::Model;
use wgoose_measure::ledger::Ledger;
use wgoose_measure::problem::Problem;
use wgoose_measure::quality::PendingReference;
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::runner::{ChildRunner, ChildSetup, GpuRunner, Runner};
use wgoose_runtime::Device;

/// Runs a sweep.
///
/// # Errors
/// The ledger or the device fails, nothing right can be run, or the listener breaks; what was measured until then is in
/// the ledger.
pub fn sweep(
    device: &Arc<Device>,
    model: &Arc<Model>,
    options: &SweepOptions,
    listen: Listener<'_>,
) -> Result<Swept, SweepError> {
    let problem = Problem::of(device, model, &options.catalogue);
    let asked = options.chunks.iter().map(|n| ("chunk", *n, 1, 4096));
    for (what, got, least, most) in asked {
        if !(least..=most).contains(&got) {
            return Err(SweepError::Size { what, got, least, most });
        }
    }
    let ledger = open(options, listen)?;
    let mut runner = runner(device, model, &problem, options)?;
    let cache = ResultCache::new(ledger, problem.default.device.clone(), Some(problem.model.clone()), &mut *runner);
    search(&problem, options, cache, listen)
}

/// Times every kernel that decoding could run, of the `part`th of `of` shares of all kinds of op instances, and chooses
/// nothing: how many. Ledgers of all shares are the whole space, on which searches are scored
/// without a GPU (`wgoose-sim`).
///
/// # Errors
/// As [`sweep`].
pub fn survey(
    device: &Arc<Device>,
    model: &Arc<Model>,
    options: &SweepOptions,
    share: (usize, usize),
    listen: Listener<'_>,
) -> Result<usize, SweepError> {
    let problem = Problem::of(device, model, &options.catalogue);
    let ledger = open(options, listen)?;
    let mut runner = runner(device, model, &problem, options)?;
    let cache = ResultCache::new(ledger, problem.default.device.clone(), Some(problem.model.clone()), &mut *runner);
    time_all(&problem, options, cache, share, listen)
}

fn open(options: &SweepOptions, listen: Listener<'_>) -> Result<Ledger, SweepError> {
    let mut ledger = Ledger::open(&options.ledger)?;
    for notice in ledger.take_notices() {
        tell(listen, Event::Note(Note::Ledger(notice)))?;
    }
    Ok(ledger)
}

fn runner<'a>(
    device: &'a Arc<Device>,
    model: &Arc<Model>,
    problem: &Problem,
    options: &SweepOptions,
) -> Result<Box<dyn Runner + 'a>, SweepError> {
    let folder = options.ledger.parent().map(PathBuf::from).unwrap_or_default();
    // A CPU that plays the device has no cores to spare.
    let reference = match device.is_cpu() {
        true => PendingReference::ready(model, folder.clone())?,
        false => PendingReference::start(model, folder.clone()),
    };
    let (catalogue, begun) = (&options.catalogue, options.begun);
    Ok(match &options.child {
        None => Box::new(GpuRunner::new(device, model, &problem.default, (catalogue, reference), begun)?),
        Some(command) => {
            let setup = ChildSetup {
                device: &problem.default.device,
                limits: &problem.limits,
                catalogue,
                reference: Some(reference),
                quarantine: folder.join("quarantine"),
                cancel: options.cancel.clone(),
                begun,
            };
            Box::new(ChildRunner::new(command.clone(), setup)?)
        }
    })
}
