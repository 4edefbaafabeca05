//! `wgoose tune`

mod choices;
mod gains;
mod judged;

use crate::failure::{Failure, Interrupted, WrongUsage};
use crate::tuning::{Tuned, TuningEffort, in_use, tune, watched};
use crate::verbs::dev::trial;
use choices::Choices;
use gains::Gains;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_kernels::Precision;
use wgoose_loader::Model;
use wgoose_measure::objective::Objective;
use wgoose_measure::seed;
use wgoose_plans::Destination;
use wgoose_runtime::DeviceOptions;
use wgoose_runtime::kernel_bench::open_measured;
use wgoose_session::model_class;
use wgoose_tuner::sweep::{Listener, Part, STRATEGIES, Strategy, SweepError, Swept, strategy, survey};

/// Autotune: find the fastest plan for a model on this GPU. Every candidate is checked against the reference, then
/// timed.
///
/// The plan is filed where every other command finds it (`wgoose plans`). It replaces the filed plan only if it is
/// faster in at least one scenario and slower in none. Every measurement is appended to a ledger next to the plan: an
/// interrupted search resumes when the same command is run again. After an update of the driver or of kernels, the
/// search starts from the filed plan.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose tune model.gguf
  wgoose tune model.gguf --effort quick
  wgoose tune model.gguf --only fusions -v
  wgoose tune model.gguf --budget 1200 --workload embed --out embed.ron")]
pub(crate) struct Args {
    /// Model file, or a folder with the shards of one.
    model: PathBuf,
    /// Write the plan to this file and do not file it.
    #[arg(long, value_parser = crate::options::beside_lines())]
    out: Option<PathBuf>,
    /// Ledger file. Default: next to the plan, with the extension .jsonl.
    #[arg(long)]
    ledger: Option<PathBuf>,
    /// How much to search.
    #[arg(long, value_enum, default_value_t)]
    effort: TuningEffort,
    /// Total time in seconds, instead of the effort's. The reference is computed in any case, and cached.
    #[arg(long, value_name = "SECONDS")]
    budget: Option<u64>,
    /// Parts of the plan to search: layouts, fusions, state, chunk, kernels. Default: all. Other parts stay as in the
    /// default plan.
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    only: Vec<Part>,
    /// Prefill chunks to compare; default 16,32,64,128 on a CPU device, else 64,256,1024,2048,4096.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    chunks: Vec<u32>,
    /// Workload that the plan is for: chat, embed, batch, or a file such as (name: "mine", parts: [(tokens: 1, weight:
    /// 0.5), (tokens: 300, sequences: 2, weight: 0.5)]). There, tokens: 1 is decode, and (tokens: 32, from_start: true)
    /// is a cold start.
    #[arg(long, default_value = "chat", value_name = "WORKLOAD")]
    workload: String,
    /// Also tune decode at this batch size.
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=1024))]
    sequences: Option<u32>,
    /// Also try kernels that round activations to int8, which is faster and less precise. A separate quality gate
    /// checks them, and `wgoose info` names them in the plan.
    #[arg(long)]
    allow_int8: bool,
    /// Search strategy: staged, or random (the baseline of comparisons).
    #[arg(long, value_name = "NAME", value_parser = strategy, default_value = STRATEGIES[0].name())]
    strategy: &'static dyn Strategy,
    /// Configurations to measure first: a JSON list of {"op": .., "variant": .., "config": {..}}, optionally with "k",
    /// "m", "formats" and "rows" of the op instances that each is for.
    #[arg(long, value_name = "FILE")]
    seeds: Option<PathBuf>,
    /// Start from the default plan, not from the filed or shipped plan (the incumbent).
    #[arg(long)]
    fresh: bool,
    /// Time every kernel that decode could run and choose no plan: a data set for scoring search strategies. With 2/8
    /// this machine measures the second of eight shares.
    #[arg(long, value_name = "SHARE", value_parser = share, num_args = 0..=1, default_missing_value = "1/1", require_equals = true)]
    survey: Option<(usize, usize)>,
    /// GPU adapter: an index, PCI address, UUID or name from `wgoose devices`, or an unambiguous part of a name.
    #[arg(long)]
    device: Option<String>,
    /// Timeout for compiling or running one candidate, in seconds, after which it is killed and left out. Default: 180
    /// and 60; 1800 on a device that a CPU emulates.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    patience: Option<u64>,
    /// Print verdicts as JSON, an object a line: of candidates that are wrong, then of the plan in each scenario. The
    /// exit code is as for `wgoose dev kernel --json`.
    #[arg(long, conflicts_with = "survey")]
    json: bool,
    /// Print every candidate and its result.
    #[arg(short, long)]
    verbose: bool,
    /// Run trials in this process, without a child: a kernel that hangs or crashes ends the search.
    #[arg(long, conflicts_with = "patience")]
    in_process: bool,
    #[command(flatten)]
    kernels: crate::options::KernelOptions,
    #[command(flatten)]
    cache: crate::options::CacheOptions,
}

/// `2/8`
fn share(text: &str) -> Result<(usize, usize), String> {
    let share = text.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    share.filter(|(part, of)| (1..=*of).contains(part)).ok_or_else(|| "a share is such as 2/8".to_owned())
}

pub(crate) fn run(args: &Args, started: Instant) -> Result<(), Failure> {
    if let Some(out) = args.out.as_ref().filter(|out| args.ledger.as_ref() == Some(*out)) {
        return Err(WrongUsage(format!("{}: the plan and the measurements need a file each", out.display())).into());
    }
    let seeds = args.seeds.as_deref().map(seed::load).transpose()?.unwrap_or_default();
    let model = Arc::new(Model::open(&args.model)?);
    let catalogue = args.kernels.catalogue_in_part()?;
    // Before minutes of work.
    let destination = Destination::new(args.out.clone())?;
    let (adapter, cache) = (args.device.clone(), args.cache.folder());
    let opening = DeviceOptions { adapter, cache, ..DeviceOptions::default() };
    let device = open_measured(&opening)?;
    let class = model_class(&model);
    let beside = destination.ledger(device.fingerprint(), &class);
    let ledger = args.ledger.as_ref().unwrap_or(&beside);
    let mut options = args.effort.options(&device, ledger, started, catalogue);
    options.budget = args.budget.map_or(options.budget, Duration::from_secs);
    let workload = Objective::named(&args.workload, device.is_cpu())?;
    options.objective = match args.sequences {
        Some(sequences) => workload.and_together(sequences),
        None => workload,
    };
    if !args.only.is_empty() {
        options.parts = args.only.iter().copied().collect();
    }
    if !args.chunks.is_empty() {
        options.chunks.clone_from(&args.chunks);
    }
    if args.allow_int8 {
        options.allowed = Precision::Q8;
    }
    options.seeds = seeds;
    if !args.fresh {
        options.in_use = in_use(&device, &class, &options.catalogue);
    }
    options.strategy = args.strategy;
    if !args.in_process {
        let folder = ledger.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folders = (args.kernels.folder(), folder);
        let patience = args.patience.map(Duration::from_secs);
        options.child = Some(trial::command(&args.model, &device, &opening, folders, patience)?);
    }
    if let Some(share) = args.survey {
        let time = |listen: Listener<'_>| survey(&device, &model, &options, share, listen).map_err(Box::new);
        let kernels = match watched(&options, args.verbose, time)? {
            Err(error) if matches!(*error, SweepError::Stopped) => {
                return Err(Interrupted(format!("run it again to resume from {}", ledger.display())).into());
            }
            kernels => kernels?,
        };
        outln!("{kernels} kernels timed: {}", ledger.display());
        return Ok(());
    }
    let swept = match tune(&device, &model, &options, args.verbose)? {
        Tuned::Swept(swept) => swept,
        Tuned::Interrupted(best) => {
            let left = match best {
                Some(plan) => format!("the best plan so far is {}", destination.save(&class, &plan)?),
                None => "no plan that passed the gate is better than the default yet".to_owned(),
            };
            let text = format!("{left}; run it again to resume from {}", ledger.display());
            return Err(Interrupted(text).into());
        }
    };
    let Swept { plan, is_unjudged, worth, answers_alike, best_seen, measured, recalled } = swept;
    if is_unjudged {
        let seconds = options.budget.as_secs();
        outln!("{seconds} s are too few to compare the incumbent plan, which stays; give a longer --budget");
        if matches!(destination, Destination::File(_)) {
            listln!("plan: {}", destination.save(&class, &plan)?);
        }
        return Ok(());
    }
    let place = destination.save(&class, &plan)?;
    if args.json {
        return judged::judged(&plan, &place, ledger);
    }
    let (choices, chunk) = (plan.choices.len(), plan.prefill_chunk);
    let (catalogue, best_seen) = (&options.catalogue, best_seen.as_ref());
    outln!("{}", Gains { plan: &plan, catalogue, answers_alike, best_seen });
    outln!("{}", Choices { worth: &worth, vocab: plan.model.vocab });
    let kernels = if choices == 1 { "kernel" } else { "kernels" };
    outln!(
        "{choices} {kernels} chosen, chunk {chunk}; {measured} experiments measured, {recalled} taken from the ledger\n"
    );
    let (model, plan) = match &destination {
        Destination::File(path) => (args.model.display(), format!(" --plan {}", path.display())),
        Destination::Store(_) => (args.model.display(), String::new()),
    };
    listln!("plan: {place}");
    listln!("now:  wgoose generate {model}{plan} -p \"The goose flies over\"");
    Ok(())
}
