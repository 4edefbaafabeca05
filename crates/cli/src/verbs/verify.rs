//! `wgoose verify`

use crate::failure::Failure;
use crate::options::RunOptions;
use crate::progress::Moving;
use std::path::PathBuf;
use wgoose_loader::Model;
use wgoose_tuner::quality::Reference;

/// Check a plan (or the default plan) on this device against the reference: numbers and quality hash.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose verify model.gguf
  wgoose verify model.gguf --plan plan.ron --cache references
  wgoose verify model.gguf --kernels mine --variant layer_norm/mine")]
pub(crate) struct Args {
    /// Model file.
    model: PathBuf,
    /// Where the reference is kept between runs; computing it takes a while for large models.
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: RunOptions,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let moving = Moving::spinner("opening the model and the device")?;
    let mut configured = args.options.engine(&args.model, Reference::SLOTS)?;
    moving.say("reading or computing the CPU reference, which takes minutes for billions of parameters");
    let model = std::sync::Arc::new(Model::open(&args.model)?);
    let reference = match &args.cache {
        Some(folder) => Reference::cached(&model, folder)?,
        None => Reference::compute(&model)?,
    };
    moving.say("computing the same on the device");
    let quality = reference.evaluate(&mut configured.engine)?;
    drop(moving);
    if args.json {
        let mut quality_json = serde_json::to_value(&quality)?;
        quality_json["passed"] = quality.passed(configured.precision).into();
        outln!("{}", serde_json::to_string_pretty(&quality_json)?);
    } else {
        let (certified, positions) = quality.certified;
        outln!("quality hash {} ({certified} of {positions} positions certified)", quality.hash);
        outln!("reference    {}, {} positions disagree", reference.hash(), quality.disagreements);
        outln!(
            "logits: rms error {:.1e} ({:.1e} at first tokens), largest {:.1e}\nKL {:.1e} nats",
            quality.rms,
            quality.first_rms,
            quality.max,
            quality.kl
        );
    }
    let precision = configured.precision;
    // The hash is of one model file; a plan may serve others of the same shape.
    let evidence = configured.plan.and_then(|p| p.evidence).filter(|e| e.model == model.fingerprint().to_string());
    let evidence = evidence.filter(|_| !args.options.forces_variants());
    if let Some(promised) = evidence.map(|e| e.quality_hash).filter(|h| *h != quality.hash) {
        return Err(format!("the plan was tuned with quality hash {promised}, it now gives {}", quality.hash).into());
    }
    if !quality.passed(precision) {
        return Err(format!(
            "the plan fails the quality gate for {precision}: {} positions disagree, rms {:.1e}",
            quality.disagreements, quality.rms
        )
        .into());
    }
    if !args.json {
        outln!("passed");
    }
    Ok(())
}
