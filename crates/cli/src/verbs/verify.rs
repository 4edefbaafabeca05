//! `wgoose verify`

use crate::failure::Failure;
use crate::options::RunOptions;
use crate::progress::Moving;
use std::path::PathBuf;
use wgoose_bench::ConfiguredEngine;
use wgoose_loader::Model;
use wgoose_measure::quality::{
    Agreement, ExtendedQuality, ExtendedReference, ExtendedWorkload, Quality, QualityError, Reference,
};
use wgoose_runtime::{CancelToken, Engine};

/// Check a plan on this device against the CPU reference: numbers and quality hash.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose verify model.gguf
  wgoose verify model.gguf --plan plan.ron --cache references
  wgoose verify model.gguf --kernels mine --variant layer_norm/mine")]
pub(crate) struct Args {
    /// Model file, or a folder with the shards of one.
    model: PathBuf,
    /// Folder that caches the reference between runs; for large models it is slow to compute.
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Also check long prompts and full batches on a device that a CPU emulates, which takes minutes. On a GPU they are
    /// always checked.
    #[arg(long)]
    extended: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: RunOptions,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let moving = Moving::spinner("opening the model and the device")?;
    let ConfiguredEngine { mut engine, plan, class, is_cpu, .. } =
        args.options.engine(&args.model, Reference::SLOTS)?;
    moving.say("reading or computing the CPU reference, which takes minutes for billions of parameters");
    let model = args.options.session()?.open_file(&args.model)?;
    let reference = match &args.cache {
        Some(folder) => Reference::cached(&model, folder, &CancelToken::default())?,
        None => Reference::compute(&model, &CancelToken::default())?,
    };
    moving.say("computing the same on the device");
    let mut quality = reference.evaluate(&mut engine, class)?;
    if quality.passed() {
        moving.say("reading a prompt in two passes, of every length");
        let cut = reference.evaluate_every_length(&mut engine, class, &CancelToken::default())?;
        if !cut.passed() {
            quality = cut;
        }
    }
    let extended = if quality.passed() && (args.extended || !is_cpu) {
        moving.say("long prompts and full batches, against f32 kernels of the same device");
        Some(extended(args, &model, &reference, &mut engine, &quality)?)
    } else {
        None
    };
    drop(moving);
    let has_passed = quality.passed() && extended.as_ref().is_none_or(ExtendedQuality::passed);
    if args.json {
        let mut found = serde_json::to_value(&quality)?;
        found["passed"] = has_passed.into();
        found["extended"] = serde_json::to_value(&extended)?;
        outln!("{}", serde_json::to_string_pretty(&found)?);
    } else {
        print(&quality, extended.as_ref())?;
    }
    // The hash is of one model file; a plan may serve others of the same shape.
    let evidence = plan.and_then(|p| p.evidence).filter(|e| e.model == model.fingerprint().to_string());
    let evidence = evidence.filter(|e| e.class == Some(class) && !args.options.forces_variants());
    if let Some(promised) = evidence.map(|e| e.quality_hash).filter(|h| h != quality.hash()) {
        return Err(format!("the plan was tuned with quality hash {promised}, it now gives {}", quality.hash()).into());
    }
    if !has_passed {
        let why = extended.filter(|_| quality.passed()).map_or_else(|| quality.to_string(), |e| e.to_string());
        return Err(format!("the plan fails the quality gate: {why}").into());
    }
    if !args.json {
        outln!("passed");
    }
    Ok(())
}

fn extended(
    args: &Args,
    model: &Model,
    reference: &Reference,
    engine: &mut Engine,
    quality: &Quality,
) -> Result<ExtendedQuality, QualityError> {
    let workload = ExtendedWorkload::fitting(engine, false);
    let expected = match &args.cache {
        Some(folder) => ExtendedReference::cached(model, reference, engine, workload, folder)?,
        None => ExtendedReference::compute(model, reference, engine, workload)?,
    };
    expected.evaluate(engine, quality.own().class)
}

fn print(quality: &Quality, extended: Option<&ExtendedQuality>) -> std::io::Result<()> {
    outln!("{:<20} {:>20} {:>21}  quality hash", "class of precision", "certified positions", "decisions that agree");
    for agreement in &quality.agreements {
        let Agreement { class, hash, certified: (certified, positions), decisions, disagreements, .. } = agreement;
        let agreeing = format!("{} of {decisions}", decisions - disagreements);
        let hash = if agreement.is_by_errors_only() { "none: judged by KL only" } else { hash };
        outln!("{:<20} {:>20} {agreeing:>21}  {hash}", class.to_string(), format!("{certified} of {positions}"));
    }
    outln!(
        "logits: rms error {:.1e} ({:.1e} at first tokens), largest {:.1e}; KL {:.1e} nats",
        quality.rms,
        quality.first_rms,
        quality.max,
        quality.kl
    );
    match extended {
        Some(extended) => outln!("against f32 kernels: {extended}"),
        None => outln!("not checked beyond {}", quality.checked),
    }
    Ok(())
}
