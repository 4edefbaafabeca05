//! `wgoose compare`

mod variants;

use crate::announce::announce;
use crate::failure::{Failure, WrongUsage};
use crate::findings::{Form, judged};
use crate::measuring::{BenchOptions, Question, Workbench, measure};
use crate::options::{one_of_plans, say_differing, variant};
use crate::out;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use wgoose_graph::{Fusion, FusionSet};
use wgoose_kernels::Precision;
use wgoose_loader::Model;
use wgoose_measure::driver::Drive;
use wgoose_measure::experiment::{Arm, Difference, DifferenceError, Findings, Ground};
use wgoose_measure::ledger::Ledger;
use wgoose_measure::objective::Objective;
use wgoose_measure::scenario::Scenario;
use wgoose_plans::PlanChoice;
use wgoose_plans::catalogue;
use wgoose_report::picture;
use wgoose_session::{Chosen, Session};

/// Compare the speed of plans, kernels or models, with confidence intervals.
///
/// The baseline is the first --plan, or the plan used without that option. Every other option adds an arm that differs
/// from the baseline in one thing. Each arm is checked against the CPU reference and refused if it is wrong, then timed
/// against the baseline in interleaved pairs. Verdicts at 95 % confidence: FAST or SLOW by at least 2 %, SAME within 2
/// %, AMBIGUOUS if the samples do not decide.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose compare model.gguf --plan default --plan tuned.ron
  wgoose compare model.gguf --without norm-shift --chunk 32 --chunk 256
  wgoose compare model.gguf --kernels mine --workload embed
  wgoose compare model.gguf --kernels mine --variant embed/pairs --variant matmul/naive
  wgoose compare f16.gguf --against q8.gguf --format md --picture formats.svg")]
pub(crate) struct Args {
    /// Model files; each is compared separately.
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<PathBuf>,
    /// Plan to compare: `found` (the one used without this option), `default`, or a file. The first is the baseline.
    #[arg(long = "plan", value_name = "found|default|FILE", value_parser = one_of_plans())]
    plans: Vec<PlanChoice>,
    /// Add an arm: the baseline with this fusion too, such as norm-matmul.
    #[arg(long, value_name = "FUSION")]
    with: Vec<Fusion>,
    /// Add an arm: the baseline without this fusion.
    #[arg(long, value_name = "FUSION")]
    without: Vec<Fusion>,
    /// Add an arm: the baseline with this prefill chunk.
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..=65535))]
    chunk: Vec<u32>,
    /// Add an arm: the baseline with arithmetic no coarser than f32, q15, f16 or q8.
    #[arg(long, value_name = "CLASS")]
    precision: Vec<Precision>,
    /// Add an arm: the baseline with the kernels of this folder, laid out like kernels-wgsl/, in place of the built-in
    /// ones.
    #[arg(long, value_name = "DIR")]
    kernels: Vec<PathBuf>,
    /// Add an arm: the baseline with this variant for its op. The variant is built in or from a --kernels folder, which
    /// then is no arm itself. Its tunables are the plan's, or as near to their defaults as possible.
    #[arg(long = "variant", value_name = "OP/VARIANT", value_parser = variant)]
    variants: Vec<(String, String)>,
    /// Add an arm: another model file, with the plan it would run with.
    #[arg(long, value_name = "MODEL")]
    against: Vec<PathBuf>,
    /// Workload to time: chat, embed, batch, or a file, as for `wgoose tune`.
    #[arg(long, default_value = "chat", value_name = "WORKLOAD")]
    workload: String,
    /// Also time decode at this batch size.
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=1024))]
    sequences: Option<u32>,
    /// Time for the samples of each model, in seconds. Every comparison takes 6 to 40 pairs.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    budget: u64,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    /// Print verdicts as JSON, an object a line, and exit with the code of the worst, or of the best if nothing is
    /// wrong: as `wgoose dev kernel --json`.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Draw the intervals to this file, as SVG.
    #[arg(long, value_name = "FILE", value_parser = crate::options::place())]
    picture: Option<PathBuf>,
    /// Append every sample to this ledger.
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    #[command(flatten)]
    bench: BenchOptions,
}

/// What an arm differs in, with its name.
type NamedDifference = (String, Difference);

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let differences = args.differences()?;
    if args.plans.len() < 2 && differences.is_empty() && args.against.is_empty() {
        let what = "a second --plan, --with, --without, --chunk, --precision, --kernels, --variant or --against";
        return Err(WrongUsage(format!("there is nothing to compare with: name {what}")).into());
    }
    if args.picture.is_some() && args.models.len() > 1 {
        return Err(WrongUsage("--picture is of one model: compare them one by one".to_owned()).into());
    }
    // Before minutes of work.
    let models = args.models.iter().map(|path| Ok(Arc::new(Model::open(path)?)));
    let models = models.collect::<Result<Vec<_>, Failure>>()?;
    let temporary = TempDir::new()?;
    let ledger = args.ledger.clone().unwrap_or_else(|| temporary.path().join("ledger.jsonl"));
    drop(Ledger::open(&ledger)?);
    let bench = args.bench.open()?;
    let workload = Objective::named(&args.workload, bench.device.is_cpu())?;
    let objective = match args.sequences {
        Some(sequences) => workload.and_together(sequences),
        None => workload,
    };
    let mut all = Vec::new();
    for model in &models {
        let arms = args.arms(model, &bench, &differences, &objective.scenarios())?;
        let budget = Duration::from_secs(args.budget);
        let (arms, objective) = (&arms[..], &objective);
        let question = Question { name: "compare", declaration: None, arms, left_out: &[], objective, budget };
        all.push(measure(&bench, question, Ledger::open(&ledger)?)?);
        for (arm, (_, difference)) in arms[args.plans.len().max(1)..].iter().zip(&differences) {
            difference.kernel_files.iter().for_each(|folder| say_differing(folder, &arm.catalogue));
        }
    }
    if let (Some(path), [findings]) = (&args.picture, &all[..]) {
        out::file(path, picture(findings).as_bytes())?;
    }
    if args.json {
        return judged(&all);
    }
    out!("{}", args.format.of(&all));
    let is_refused = |findings: &Findings| findings.found.iter().skip(1).all(|found| found.refused.is_some());
    if all.iter().all(is_refused) { Err("nothing was timed: every arm is refused".into()) } else { Ok(()) }
}

impl Args {
    /// What differs from the baseline in one thing, with its name.
    fn differences(&self) -> Result<Vec<NamedDifference>, Failure> {
        let one = |fusion: &Fusion| FusionSet::from([*fusion]);
        let none = Difference::default;
        let with = self.with.iter().map(|f| (format!("with {f}"), Difference { with: one(f), ..none() }));
        let without = self.without.iter().map(|f| (format!("without {f}"), Difference { without: one(f), ..none() }));
        let chunk = self.chunk.iter().map(|n| (format!("chunk {n}"), Difference { chunk: Some(*n), ..none() }));
        let precision = self
            .precision
            .iter()
            .map(|p| (format!("precision {}", p.name()), Difference { precision: Some(*p), ..none() }));
        let variants = variants::differences(&self.variants, &self.kernels)?;
        let is_arm = |folder: &&PathBuf| variants.iter().all(|(_, d)| d.kernel_files.as_ref() != Some(folder));
        let kernels = self.kernels.iter().filter(is_arm).map(|folder| {
            (format!("kernels {}", folder.display()), Difference { kernel_files: Some(folder.clone()), ..none() })
        });
        let kernels: Vec<NamedDifference> = kernels.collect();
        Ok(with.chain(without).chain(chunk).chain(precision).chain(kernels).chain(variants).collect())
    }

    /// The arms for a model, the baseline first.
    fn arms(
        &self,
        model: &Arc<Model>,
        bench: &Workbench,
        differences: &[NamedDifference],
        scenarios: &[Scenario],
    ) -> Result<Vec<Arm>, Failure> {
        let catalogue = catalogue::embedded();
        let plans = if self.plans.is_empty() { &[PlanChoice::Find][..] } else { &self.plans[..] };
        let planned = |model: &Arc<Model>, choice: &PlanChoice| -> Result<Arm, Failure> {
            let builder =
                Session::builder().plan(choice.clone()).catalogue(Arc::clone(&catalogue)).on_plan(Some(announce));
            let Chosen { plan, report } = builder.plan_for(&bench.device, model)?;
            let name = report.name().unwrap_or_else(|| "default plan".to_owned());
            let (model, catalogue) = (Arc::clone(model), Arc::clone(&catalogue));
            Ok(Arm { name, plan, model, catalogue, drive: Drive::default() })
        };
        let mut arms = plans.iter().map(|choice| planned(model, choice)).collect::<Result<Vec<_>, _>>()?;
        let progress: &dyn Fn(u64, u64) = &|_, _| ();
        let (device, models, folder) = (&*bench.device, bench.kept.as_path(), Path::new(""));
        let ground = Ground { device, scenarios, folder, models, source: None, progress };
        for (name, difference) in differences {
            arms.push(difference.of(&arms[0], name, &ground)?);
        }
        for path in &self.against {
            let other = planned(&Arc::new(Model::open(path)?), &PlanChoice::Find)?;
            arms.push(Arm { name: path.display().to_string(), ..other });
        }
        for i in 1..arms.len() {
            if arms[..i].iter().any(|arm| arm.name == arms[i].name) {
                arms[i].name += &format!(" ({})", i + 1);
            }
        }
        match arms[1..].iter().find(|arm| arm.runs_as(&arms[0], scenarios, device.limits())) {
            Some(arm) => Err(DifferenceError::Nothing(format!("'{}'", arm.name)).into()),
            None => Ok(arms),
        }
    }
}
