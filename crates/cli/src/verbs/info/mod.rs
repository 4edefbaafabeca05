//! `wgoose info`

mod memory;

use crate::failure::Failure;
use crate::options::{BackendName, RunOptions};
use crate::plan_text;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;
use wgoose_graph::{Format, Weight};
use wgoose_kernels::Plan;
use wgoose_loader::{About, EmbeddingHead, Model};
use wgoose_runtime::{FoundAdapter, RuntimeError};
use wgoose_session::{Chosen, PlanReport, printable};

/// Describe a model file or a plan.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose info model.gguf
  wgoose info model.gguf --memory --gpu-budget 600MiB
  wgoose info plan.ron")]
pub(crate) struct Args {
    /// Model file (.gguf, .st, .pth), folder of a model, or plan (.ron).
    file: PathBuf,
    /// List every tensor.
    #[arg(long)]
    tensors: bool,
    /// Show memory use when the model runs, predicted and measured: mapped file, GPU, staging.
    #[arg(long, conflicts_with = "tensors")]
    memory: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: RunOptions,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.file.extension().is_some_and(|e| e == "ron") {
        let plan = Plan::load(&args.file)?;
        if args.json {
            outln!("{}", serde_json::to_string_pretty(&plan)?);
        } else {
            let catalogue = args.options.kernels.catalogue()?;
            plan_text::print(&plan, &catalogue)?;
        }
        return Ok(());
    }
    if args.memory {
        return memory::run(&args.file, &args.options, args.json);
    }
    let start = Instant::now();
    let model = args.options.session()?.open_file(&args.file)?;
    let opened = start.elapsed();
    let plan = plan(&model, &args.options)?;
    let shape = model.shape();
    let mut formats: BTreeMap<Format, (usize, u64)> = BTreeMap::new();
    for weight in Weight::all(shape) {
        let view = model.tensor(weight);
        let entry = formats.entry(view.format()).or_default();
        *entry = (entry.0 + 1, entry.1 + view.byte_len() as u64);
    }
    let heads: Vec<&str> = model.embedding_heads().map(EmbeddingHead::name).collect();
    if args.json {
        let named = |(count, bytes): &(usize, u64)| serde_json::json!({ "tensors": count, "bytes": bytes });
        let formats: BTreeMap<_, _> = formats.iter().map(|(format, sums)| (format.name(), named(sums))).collect();
        let About { name, author, licence, quantisation, tokenizer, chat_template: _ } = model.about();
        let files: Vec<_> = model.files().map(|file| file.display().to_string()).collect();
        let info = serde_json::json!({
            "name": name, "author": author, "licence": licence, "quantisation": quantisation, "tokenizer": tokenizer,
            "files": files, "container": model.container().to_string(), "architecture": shape.architecture(),
            "shape": shape, "embedding_heads": heads, "file_bytes": model.file_len(),
            "state_bytes": shape.state_len() * 4, "formats": formats, "fingerprint": model.fingerprint().to_string(),
            "open_ms": opened.as_secs_f64() * 1e3, "plan": plan.as_ref().map(ToString::to_string),
        });
        outln!("{}", serde_json::to_string_pretty(&info)?);
        return Ok(());
    }
    let several = match model.files().count() {
        1 => String::new(),
        count => format!(" in {count} files"),
    };
    outln!(
        "{}: {}{several}, {:.1} MiB, opened in {:.2} ms",
        args.file.display(),
        model.container(),
        mib(model.file_len() as u64),
        opened.as_secs_f64() * 1e3
    );
    let About { name, author, licence, quantisation, tokenizer, chat_template: _ } = model.about();
    let said = [("name", name), ("author", author), ("licence", licence), ("tokenizer", tokenizer)];
    let said = said.map(|(what, text)| (what, text.as_deref()));
    for (what, text) in said.into_iter().chain([("quantisation", *quantisation)]) {
        if let Some(text) = text {
            listln!("{what}: {text}");
        }
    }
    outln!(
        "layers {}, width {}, channel mix {}, {} {} of {}",
        shape.layers,
        shape.width,
        shape.ffn,
        shape.heads(),
        if shape.heads() == 1 { "head" } else { "heads" },
        shape.head_size
    );
    let r = shape.ranks;
    outln!(
        "vocabulary {}\nadapter ranks: decay {}, in-context learning rate {}, value {}, gate {}",
        shape.vocab,
        r.decay,
        r.iclr,
        r.value,
        r.gate
    );
    if let Some(n) = shape.deep_embed {
        outln!("{}: DeepEmbed with a {n} x {n} matrix for each token in each layer", shape.architecture());
    }
    if !heads.is_empty() {
        outln!("embedding heads {}", heads.join(", "));
    }
    if !shape.output_head {
        outln!("no output head: it embeds texts, and generates none");
    }
    let state = mib(shape.state_len() as u64 * 4);
    outln!("state {state:.2} MiB per sequence, fingerprint {}", model.fingerprint());
    if let Some(plan) = plan {
        listln!("plan: {plan}");
    }
    for (format, (count, bytes)) in formats {
        let tensors = if count == 1 { "tensor " } else { "tensors" };
        outln!("{format:>6} {count:>5} {tensors} {:>10.1} MiB", mib(bytes));
    }
    if args.tensors {
        for weight in Weight::all(shape) {
            let view = model.tensor(weight);
            let (file, offset) = model.locate(view.file_offset());
            let file = match several.is_empty() {
                true => String::new(),
                false => format!("  {}", file.file_name().unwrap_or_default().display()),
            };
            outln!("{offset:>12} {:>5} {:>6} x {:<6} {weight}{file}", view.format(), view.rows(), view.cols());
        }
    }
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// What there is to say of the plan that the model would run with; nothing on the CPU reference, or without a GPU.
fn plan(model: &Model, options: &RunOptions) -> Result<Option<PlanReport>, Failure> {
    if let BackendName::Cpu = options.backend {
        return Ok(None);
    }
    let builder = options.session()?.on_plan(None);
    let found = match FoundAdapter::find(&builder.device_options()) {
        Err(RuntimeError::NoAdapter) => return Ok(None),
        found => found?,
    };
    let Chosen { report, .. } = builder.plan_at(&found.summary().fingerprint, &found.summary().limits, model)?;
    report.skipped.iter().for_each(|skipped| eprintln!("plan: {}", printable(&skipped.to_string())));
    Ok(Some(report))
}
