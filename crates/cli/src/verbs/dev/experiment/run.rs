//! `wgoose dev experiment run`

use super::recorded::Recorded;
use super::render::write;
use crate::failure::Failure;
use crate::findings::{Form, judged};
use crate::measuring::{BenchOptions, Question, Workbench, measure, tune};
use crate::options::say_differing;
use crate::progress::{Moving, note};
use std::path::PathBuf;
use std::time::Duration;
use wgoose_kernels::Plan;
use wgoose_measure::driver::Drive;
use wgoose_measure::experiment::{Arm, Experiment, Findings, Ground, Setting, Tuning};
use wgoose_measure::ledger::{Cause, ImpossibleArm, Ledger, Reason};
use wgoose_plans::catalogue;
use wgoose_plans::slug;
use wgoose_session::printable;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Folders of experiments.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// Time for the samples of each experiment, in seconds, instead of the declared time.
    #[arg(long, value_name = "SECONDS")]
    budget: Option<u64>,
    /// Print verdicts as JSON, an object a line, and exit with the code of the worst, or of the best if nothing is
    /// wrong: as `wgoose dev kernel --json`.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    bench: BenchOptions,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    // Before minutes of work.
    let all = args.folders.iter().map(|folder| Recorded::open(folder)).collect::<Result<Vec<_>, _>>()?;
    let bench = args.bench.open()?;
    let mut found = Vec::new();
    for recorded in &all {
        let findings = one(recorded, &bench, args.budget)?;
        if !args.json {
            print(recorded, &findings)?;
        }
        found.push(findings);
    }
    if args.json { judged(&found) } else { Ok(()) }
}

fn one(recorded: &Recorded, bench: &Workbench, budget: Option<u64>) -> Result<Findings, Failure> {
    let setting = recorded.experiment.setting(bench.device.is_cpu());
    let objective = setting.objective(&recorded.name);
    let device = slug(&bench.device.fingerprint().adapter);
    let ledger = || Ledger::open(recorded.result(&device, "jsonl"));
    let (mut arms, left_out) = arms(recorded, setting, bench)?;
    left_out.iter().for_each(|arm| note(&printable(&format!("{} is left out: {}", arm.name, arm.reason))));
    // That it can be written, before minutes of work.
    drop(ledger()?);
    if let Tuning::TunedPerArm { seconds } = recorded.experiment.tuning {
        tune(bench, &mut arms, &objective.scenarios(), (ledger()?, Duration::from_secs(seconds)))?;
    }
    let question = Question {
        name: &recorded.name,
        declaration: Some(recorded.declaration.clone()),
        arms: &arms,
        left_out: &left_out,
        objective: &objective,
        budget: Duration::from_secs(budget.unwrap_or(setting.seconds)),
    };
    let findings = measure(bench, question, ledger()?)?;
    for declared in &recorded.experiment.arms {
        let arm = arms[1..].iter().find(|arm| arm.name == declared.name);
        if let (Some(folder), Some(arm)) = (&declared.differs.kernel_files, arm) {
            say_differing(&recorded.folder.join(folder), &arm.catalogue);
        }
    }
    write(recorded)?;
    Ok(findings)
}

fn print(recorded: &Recorded, findings: &Findings) -> Result<(), Failure> {
    out!("{}", Form::Table.of(std::slice::from_ref(findings)));
    for claim in &recorded.experiment.claims {
        let (found, answer) = claim.answer(findings);
        let found = found.map_or("-".to_owned(), |gain| format!("{gain:.3}"));
        outln!("{} in {}: predicted {:.3}, found {found}: {answer}", claim.arm, claim.scenario(), claim.predicted);
    }
    Ok(())
}

/// The arms on a device, the baseline first, and those that it cannot have.
fn arms(recorded: &Recorded, setting: &Setting, bench: &Workbench) -> Result<(Vec<Arm>, Vec<ImpossibleArm>), Failure> {
    let (objective, device) = (setting.objective(&recorded.name), &*bench.device);
    let scenarios = objective.scenarios();
    let moving = Moving::bytes()?;
    let progress = |done, total| moving.done_of(done, total);
    let ground = Ground {
        device,
        scenarios: &scenarios,
        folder: &recorded.folder,
        models: &bench.kept,
        source: Some(&setting.model),
        progress: &progress,
    };
    let model = setting.model.open(&bench.kept, &recorded.folder, &progress)?;
    let plan = Plan::default_for(device.fingerprint().clone(), *model.shape(), device.limits());
    let default = Arm { name: String::new(), plan, model, catalogue: catalogue::embedded(), drive: Drive::default() };
    let named = |name: &str, error| format!("arm '{name}': {error}");
    let baseline = recorded.experiment.baseline.on(&default, Experiment::BASELINE, &ground);
    let baseline = baseline.map_err(|error| named(Experiment::BASELINE, error))?;
    let (mut arms, mut left_out) = (vec![baseline], Vec::new());
    for arm in &recorded.experiment.arms {
        match arm.differs.of(&arms[0], &arm.name, &ground) {
            Ok(arm) => arms.push(arm),
            Err(error) if error.is_of_the_device() => {
                let reason = Reason { cause: Cause::Constraint, text: error.to_string() };
                left_out.push(ImpossibleArm { name: arm.name.clone(), reason });
            }
            Err(error) => return Err(named(&arm.name, error).into()),
        }
    }
    if arms.len() == 1 {
        let why = left_out.iter().map(|arm| format!("{}: {}", arm.name, arm.reason.text)).collect::<Vec<_>>();
        return Err(format!("{}: this device can have none of its arms: {}", recorded.name, why.join("; ")).into());
    }
    Ok((arms, left_out))
}
