//! `--tune`, and the question on the first use of a GPU: sessions of verbs that people begin with.

use crate::announce::announce;
use crate::failure::{Failure, Interrupted, WrongUsage};
use crate::options::{BackendName, RunOptions};
use crate::progress::Moving;
use crate::tuning::{Tuned, TuningEffort, in_use, tune};
use crate::verbs::dev::trial;
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::time::Instant;
use wgoose_plans::{ModelClass, Origin, Store, StoreError, plan_name};
use wgoose_runtime::DeviceLimits;
use wgoose_runtime::kernel_bench::open_measured;
use wgoose_session::{PlanChoice, PlanReport, Session, SessionBuilder, model_class};

/// The option, for verbs that run one session.
#[derive(clap::Args)]
#[command(next_help_heading = "Device and plan")]
pub(crate) struct FirstUse {
    /// If this GPU has no current plan for the model, tune first (about 20 s) and file the plan (`wgoose plans`).
    #[arg(long, conflicts_with = "plan")]
    tune: bool,
}

/// What comes before a session is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Nothing,
    Tune,
    Ask,
}

/// What matters for that.
struct Situation<'a> {
    /// `--tune`.
    is_asked_to_tune: bool,
    /// Whether the plan may be found, rather than named, and one that is tuned be filed: for all that the device has.
    may_find: bool,
    report: &'a PlanReport,
    /// Whether questions reach the user, and answers come back.
    is_terminal: bool,
    /// Whether a CPU plays the device: tuning gains little there.
    is_on_cpu: bool,
    /// Whether the user has said no before.
    has_declined: bool,
}

impl Situation<'_> {
    fn first(&self) -> First {
        let has_none = matches!(self.report.origin, Origin::Default { .. });
        match self {
            Situation { may_find: false, .. } => First::Nothing,
            Situation { is_asked_to_tune: true, report, .. } if report.is_current() => First::Nothing,
            Situation { is_asked_to_tune: true, .. } => First::Tune,
            Situation { is_terminal: true, is_on_cpu: false, has_declined: false, .. } if has_none => First::Ask,
            _ => First::Nothing,
        }
    }
}

impl FirstUse {
    /// Opens a session. Before that, if `--tune` or the user says so and no current plan is found, tunes for
    /// [`TuningEffort::Quick`], the time since the process began counted.
    pub(crate) fn open(
        &self,
        builder: SessionBuilder,
        model: &Path,
        options: &RunOptions,
        started: Instant,
    ) -> Result<Session, Failure> {
        if self.tune && matches!(options.backend, BackendName::Cpu) {
            return Err(WrongUsage("the CPU reference has no plan: leave out --tune".into()).into());
        }
        let is_lowered = options.limits.limits() != DeviceLimits::Own;
        if self.tune && is_lowered {
            let why = "a plan is filed for all that the device has: leave out --limits or --tune";
            return Err(WrongUsage(why.into()).into());
        }
        // Cheap: weights are uploaded on first use.
        let moving = Moving::spinner("opening the model and the device")?;
        let session = builder.clone().on_plan(None).open(model)?;
        drop(moving);
        let (Some(report), Some(device)) = (session.plan(), session.device()) else { return Ok(session) };
        let class = model_class(session.model());
        let (store, name) = (Store::of_user(), plan_name(device, &class));
        let situation = Situation {
            is_asked_to_tune: self.tune,
            may_find: options.plan() == PlanChoice::Find && !is_lowered,
            report,
            is_terminal: std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            is_on_cpu: session.is_on_cpu(),
            has_declined: store.as_ref().is_none_or(|store| store.has_declined(&name)),
        };
        let first = match (situation.first(), &store) {
            (First::Ask, Some(store)) => ask(store, &name)?,
            (first, _) => first,
        };
        if first == First::Nothing {
            announce(report);
            return Ok(session);
        }
        let store = store.ok_or(StoreError::NoFolder)?;
        drop(session);
        tune_quickly(&builder, model, options, (&store, &class), started)?;
        Ok(builder.open(model)?)
    }
}

/// Asks whether to tune; a no is remembered.
fn ask(store: &Store, name: &str) -> Result<First, Failure> {
    let seconds = TuningEffort::Quick.budget().as_secs();
    eprint!("Tune for this GPU now, about {seconds} s? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if is_yes(&answer) {
        return Ok(First::Tune);
    }
    store.decline(name)?;
    eprintln!("This is not asked again; wgoose tune does it whenever you like.");
    Ok(First::Nothing)
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

fn tune_quickly(
    builder: &SessionBuilder,
    model: &Path,
    options: &RunOptions,
    (store, class): (&Store, &ModelClass),
    started: Instant,
) -> Result<(), Failure> {
    store.create()?;
    let (path, model) = (model, builder.open_file(model)?);
    let opening = builder.device_options();
    let device = open_measured(&opening)?;
    let ledger = store.ledger(&plan_name(device.fingerprint(), class));
    let mut sweep = TuningEffort::Quick.options(&device, &ledger, started, options.kernels.catalogue()?);
    sweep.in_use = in_use(&device, class, &sweep.catalogue);
    let folders = (options.kernels.folder(), ledger.parent().unwrap_or(Path::new(".")));
    sweep.child = Some(trial::command(path, &device, &opening, folders, None)?);
    match tune(&device, &model, &sweep, false)? {
        Tuned::Swept(swept) if swept.is_unjudged => {}
        Tuned::Swept(swept) => drop(store.file(class, &swept.plan)?),
        Tuned::Interrupted(best) => {
            if let Some(plan) = best {
                store.file(class, &plan)?;
            }
            return Err(Interrupted("`wgoose tune` resumes from the ledger".to_owned()).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;
    use wgoose_plans::{Gain, Stale};

    #[test]
    fn the_first_use_asks_tunes_or_does_nothing() {
        let report = |origin, stale| PlanReport { origin, gain: Gain::Unknown, stale, skipped: Vec::new() };
        let none = report(Origin::Default { was_asked: false }, Vec::new());
        let in_store = || Origin::Store { name: "n".into(), tuned: UNIX_EPOCH };
        let current = report(in_store(), Vec::new());
        let stale = report(in_store(), vec![Stale::Kernels { changed: 1, of: 2 }]);
        let ask = |report| Situation {
            is_asked_to_tune: false,
            may_find: true,
            report,
            is_terminal: true,
            is_on_cpu: false,
            has_declined: false,
        };
        assert_eq!([&none, &current, &stale].map(|r| ask(r).first()), [First::Ask, First::Nothing, First::Nothing]);
        let tune = |report| Situation { is_asked_to_tune: true, is_terminal: false, is_on_cpu: true, ..ask(report) };
        assert_eq!([&none, &current, &stale].map(|r| tune(r).first()), [First::Tune, First::Nothing, First::Tune]);
        for quiet in [
            Situation { is_terminal: false, ..ask(&none) },
            Situation { is_on_cpu: true, ..ask(&none) },
            Situation { has_declined: true, ..ask(&none) },
            Situation { may_find: false, ..ask(&none) },
            Situation { may_find: false, ..tune(&none) },
        ] {
            assert_eq!(quiet.first(), First::Nothing);
        }
        assert!(is_yes("Y\n") && is_yes(" yes ") && !is_yes("\n") && !is_yes("no"));
    }
}
