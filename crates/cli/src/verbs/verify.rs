//! `wgoose verify`

use crate::Failure;
use crate::options::RunOptions;
use std::path::PathBuf;
use wgoose_loader::Model;
use wgoose_runtime::Engine;
use wgoose_tuner::quality::Reference;

/// Check a plan (or the default plan) on this device against the reference: numbers and quality hash.
#[derive(clap::Args)]
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
    let executor = args.options.executor_with(&args.model, Reference::SLOTS)?;
    let plan = executor.plan().clone();
    let mut engine = Engine::new(Box::new(executor), plan.prefill_chunk as usize);
    let model = std::sync::Arc::new(Model::open(&args.model)?);
    let reference = match &args.cache {
        Some(folder) => Reference::cached(&model, folder)?,
        None => Reference::compute(&model)?,
    };
    let quality = reference.evaluate(&mut engine)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&quality)?);
    } else {
        let (certified, positions) = quality.certified;
        println!("quality hash {} ({certified} of {positions} positions certified)", quality.hash);
        println!("reference    {}, {} positions disagree", reference.hash(), quality.disagreements);
        println!(
            "logits: rms error {:.1e} ({:.1e} at first tokens), largest {:.1e}, KL {:.1e} nats",
            quality.rms, quality.first_rms, quality.max, quality.kl
        );
    }
    if let Some(promised) = plan.evidence.map(|e| e.quality_hash).filter(|h| *h != quality.hash) {
        return Err(format!("the plan was tuned with quality hash {promised}, it now gives {}", quality.hash).into());
    }
    if !quality.passed() {
        return Err(format!(
            "the plan fails the quality gate: {} positions disagree, rms {:.1e}",
            quality.disagreements, quality.rms
        )
        .into());
    }
    if !args.json {
        println!("passed");
    }
    Ok(())
}
