//! `wgoose info`

mod memory;

use crate::failure::Failure;
use crate::options::RunOptions;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;
use wgoose_graph::{Format, Weight};
use wgoose_kernels::{Catalogue, Plan, Precision};
use wgoose_loader::Model;

/// Describe a model file, or a plan.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model file (.gguf, .st, .pth) or plan (.ron).
    file: PathBuf,
    /// List every tensor.
    #[arg(long)]
    tensors: bool,
    /// Say where the bytes go when the model runs, as predicted and as measured: mapped, on the GPU, staging.
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
            print_plan(&plan, &catalogue)?;
        }
        return Ok(());
    }
    if args.memory {
        return memory::run(&args.file, &args.options, args.json);
    }
    let start = Instant::now();
    let model = Model::open(&args.file)?;
    let opened = start.elapsed();
    let shape = model.shape();
    let mut formats: BTreeMap<Format, (usize, u64)> = BTreeMap::new();
    for weight in Weight::all(shape) {
        let view = model.tensor(weight);
        let entry = formats.entry(view.format()).or_default();
        *entry = (entry.0 + 1, entry.1 + view.byte_len() as u64);
    }
    if args.json {
        let formats: BTreeMap<_, _> = formats.iter().map(|(f, (n, b))| (f.name(), (n, b))).collect();
        let info = serde_json::json!({
            "container": model.container().to_string(), "shape": shape, "file_bytes": model.file_len(),
            "state_bytes": shape.state_len() * 4, "formats": formats, "fingerprint": model.fingerprint().to_string(),
            "open_ms": opened.as_secs_f64() * 1e3,
        });
        outln!("{}", serde_json::to_string_pretty(&info)?);
        return Ok(());
    }
    outln!(
        "{}: {}, {:.1} MB, opened in {:.2} ms",
        args.file.display(),
        model.container(),
        model.file_len() as f64 / 1e6,
        opened.as_secs_f64() * 1e3
    );
    outln!(
        "layers {}, width {}, channel mix {}, {} heads of {}",
        shape.layers,
        shape.width,
        shape.ffn,
        shape.heads(),
        shape.head_size
    );
    let r = shape.ranks;
    outln!(
        "vocabulary {}, adapter ranks: decay {}, in-context learning rate {}, value {}, gate {}",
        shape.vocab,
        r.decay,
        r.iclr,
        r.value,
        r.gate
    );
    outln!("state {:.1} MB per sequence, fingerprint {}", shape.state_len() as f64 * 4e-6, model.fingerprint());
    for (format, (count, bytes)) in formats {
        outln!("{format:>6} {count:>5} tensors {:>10.1} MB", bytes as f64 / 1e6);
    }
    if args.tensors {
        for weight in Weight::all(shape) {
            let view = model.tensor(weight);
            outln!("{:>12} {:>5} {:>6} x {:<6} {weight}", view.file_offset(), view.format(), view.rows(), view.cols());
        }
    }
    Ok(())
}

fn print_plan(plan: &Plan, catalogue: &Catalogue) -> Result<(), Failure> {
    outln!("plan for {} ({}, {})", plan.device.adapter, plan.device.backend, plan.device.driver);
    outln!("model: {} layers of width {}, vocabulary {}", plan.model.layers, plan.model.width, plan.model.vocab);
    outln!("prefill chunk {}", plan.prefill_chunk);
    outln!("precision: {}", plan.least_precise(catalogue));
    outln!("state: {}", plan.state);
    for (scenario, set) in [
        ("decode", &plan.fusions.decode),
        ("batched decode", &plan.fusions.batched),
        ("prefill", &plan.fusions.prefill),
    ] {
        let names: Vec<String> = set.iter().map(ToString::to_string).collect();
        outln!("{scenario} fusions: {}", if names.is_empty() { "none".to_owned() } else { names.join(", ") });
    }
    if !plan.interleave.is_empty() {
        let names: Vec<&str> = plan.interleave.iter().map(|format| format.name()).collect();
        outln!("interleaved: {}", names.join(", "));
    }
    if !plan.k_major.is_empty() {
        let names: Vec<String> = plan.k_major.iter().map(|role| format!("{role:?}")).collect();
        outln!("K-major, zeros of x skipped: {}", names.join(", "));
    }
    for choice in &plan.choices {
        let rounds = match choice.precision(catalogue) {
            Precision::F32 => String::new(),
            least => format!(" ({least})"),
        };
        outln!("  {:<42} {choice}{rounds}", choice.key.to_string());
    }
    if let Some(e) = &plan.evidence {
        outln!(
            "quality hash {}, {} of {} positions certified, rms error {:.2e}",
            e.quality_hash,
            e.certified.0,
            e.certified.1,
            e.rms_error
        );
        for s in &e.scenarios {
            outln!(
                "  {:<14} {:>4} tokens: default {:.0} us, tuned {:.0} us, x{:.2} to x{:.2} over {} pairs",
                s.scenario,
                s.tokens,
                s.default_us,
                s.tuned_us,
                s.speedup.0,
                s.speedup.1,
                s.pairs
            );
        }
    }
    Ok(())
}
