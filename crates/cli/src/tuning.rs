//! A sweep with its progress on stderr: what `wgoose tune` and `--tune` share.

use crate::announce::announce;
use crate::failure::Failure;
use crate::progress::{Countdown, note};
use crate::signals::OnSignal;
use clap::ValueEnum;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_kernels::{Catalogue, Plan, Precision};
use wgoose_loader::Model;
use wgoose_measure::derive::{Policy, best_so_far};
use wgoose_measure::ledger;
use wgoose_measure::objective::Objective;
use wgoose_measure::scenario::Scenario;
use wgoose_plans::{Chosen, ModelClass, Place, Store};
use wgoose_runtime::CancelToken;
use wgoose_runtime::Device;
use wgoose_session::printable;
use wgoose_tuner::sweep::{Event, Listener, Note, Part, STRATEGIES, SweepError, SweepOptions, SweepStep, Swept, sweep};

/// How much is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TuningEffort {
    /// About 20 s, longer if a large model's reference must be computed first. Tries one megakernel; on a GPU that
    /// cannot run it, fusions, chunk and the costliest kernels.
    Quick,
    /// About 300 s.
    #[default]
    Normal,
    /// Every legal configuration of every kernel, without speed heuristics; then an hour of whole steps.
    Exhaustive,
}

impl TuningEffort {
    /// The time to spend, from the start of the process.
    pub(crate) fn budget(self) -> Duration {
        Duration::from_secs(match self {
            TuningEffort::Quick => 20,
            TuningEffort::Normal => 300,
            TuningEffort::Exhaustive => 3600,
        })
    }

    /// What a sweep does with this effort on a device, everything else as usual.
    pub(crate) fn options(
        self,
        device: &Device,
        ledger: &Path,
        begun: Instant,
        catalogue: Arc<Catalogue>,
    ) -> SweepOptions {
        SweepOptions {
            ledger: ledger.to_owned(),
            begun,
            budget: self.budget(),
            parts: Part::ALL.into(),
            exhaustive: self == TuningEffort::Exhaustive,
            chunks: SweepOptions::default_chunks(device),
            objective: Objective::chat(device.is_cpu()),
            persistent: !device.is_cpu(),
            catalogue,
            allowed: Precision::F16,
            child: None,
            strategy: STRATEGIES[0],
            in_use: None,
            seeds: Vec::new(),
            hints: wgoose_plans::of_maker(device.fingerprint().vendor),
            cancel: CancelToken::default(),
        }
    }
}

/// The plan that every command runs the model with today, unless it is the device's default. What plan it is is said.
pub(crate) fn in_use(device: &Device, class: &ModelClass, catalogue: &Catalogue) -> Option<Plan> {
    let place = Place { device: device.fingerprint(), limits: device.limits(), class, catalogue };
    let Chosen { plan, report } = place.in_use(Store::of_user().as_ref())?;
    announce(&report);
    Some(plan)
}

/// How tuning ended.
pub(crate) enum Tuned {
    /// It was finished.
    Swept(Swept),
    /// It was broken off: the best plan until then, if one that passed the gate is better than the default.
    Interrupted(Option<Plan>),
}

/// Sweeps, while it is said how that goes.
pub(crate) fn tune(
    device: &Arc<Device>,
    model: &Arc<Model>,
    options: &SweepOptions,
    verbose: bool,
) -> Result<Tuned, Failure> {
    let (file, adapter, seconds) = (model.path().display(), &device.fingerprint().adapter, options.budget.as_secs());
    eprintln!("tuning {file} on {adapter}, about {seconds} s");
    match watched(options, verbose, |listen| sweep(device, model, options, listen).map_err(Box::new))? {
        Err(error) if matches!(*error, SweepError::Stopped) => {
            let (records, _) = ledger::read(&options.ledger)?;
            let policy = Policy { allowed: options.allowed, without: BTreeSet::new() };
            Ok(Tuned::Interrupted(best_so_far(&records, &options.catalogue, &options.objective, &policy)?))
        }
        swept => Ok(Tuned::Swept(swept?)),
    }
}

/// Runs something while what matters of it is said on stderr, all steps if that is to be `verbose`, with a bar on a
/// terminal. Ctrl-C or SIGTERM ends it early, a second one at once.
pub(crate) fn watched<T>(
    options: &SweepOptions,
    verbose: bool,
    run: impl FnOnce(Listener<'_>) -> Result<T, Box<SweepError>>,
) -> Result<Result<T, Box<SweepError>>, Failure> {
    let _on_signal = OnSignal::cancel(&options.cancel);
    let bar = Countdown::show(options.begun, options.budget)?;
    // Of each scenario, how many times as fast it is by what was confirmed.
    let mut gains: BTreeMap<Scenario, f64> = BTreeMap::new();
    let mut trying = String::new();
    Ok(run(&mut |event| {
        let line = |text: &dyn fmt::Display| say(&format!("{:>4} s left  {text}", bar.left().as_secs()));
        match event {
            Event::Stage { stage, .. } => {
                trying = stage.name().to_owned();
                if verbose {
                    line(&format_args!("-- {stage}"));
                }
            }
            Event::Trying(candidate) => {
                trying = candidate.to_string();
                if verbose {
                    line(&format_args!("{candidate} ..."));
                }
            }
            Event::Done(step) => {
                if verbose
                    || matches!(step, SweepStep::Wrong { .. } | SweepStep::NotRun { .. } | SweepStep::NothingFaster)
                {
                    line(&step);
                }
            }
            Event::Best { scenario, gain } => {
                gains.insert(scenario, gain);
                if verbose {
                    line(&event);
                }
            }
            Event::Waited(waited) => {
                bar.stand_still(waited);
                line(&event);
            }
            Event::Ending(left) => bar.ends_in(left),
            Event::Note(Note::Untried(_)) if !verbose => {}
            Event::Note(_) => line(&shortened(&event.to_string(), verbose)),
        }
        let best: Vec<String> = gains.iter().map(|(scenario, gain)| format!("{scenario} x{gain:.2}")).collect();
        bar.say(&if best.is_empty() { trying.clone() } else { format!("{}; {trying}", best.join(", ")) });
        options.cancel.flow()
    }))
}

/// Most characters of a note, unless all is to be said.
const SHORT: usize = 200;

fn shortened(note: &str, verbose: bool) -> String {
    match note.char_indices().nth(SHORT).filter(|_| !verbose) {
        Some((end, _)) => format!("{}... (all of it with -v)", &note[..end]),
        None => note.to_owned(),
    }
}

fn say(line: &str) {
    note(&printable(line));
}
