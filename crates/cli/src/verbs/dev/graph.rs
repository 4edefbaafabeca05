//! `wgoose dev graph`

use crate::failure::{Failure, WrongUsage};
use std::path::PathBuf;
use wgoose_graph::{BatchShape, Fusion, FusionSet, ModelShape, dot, rewrite, rwkv7};
use wgoose_runtime::{Planned, RuntimeError};

/// Print the forward pass as a graph: as text, as Graphviz, or as its dispatches on a device.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model file, or a published size such as 0.1B.
    model: PathBuf,
    /// Fusions to apply: all, or a list of norm-shift, lora-group, project, time-mix-core, time-mix-heads,
    /// time-mix-split, matmul-activation, matmul-residual, norm-project, norm-matmul.
    #[arg(long, value_delimiter = ',')]
    fuse: Vec<String>,
    /// Print Graphviz, as in `wgoose dev graph 0.1B --dot | dot -Tsvg`.
    #[arg(long)]
    dot: bool,
    /// Print the dispatches of a pass over this many tokens; needs a model file and a device.
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    dispatches: Option<u32>,
    /// With --dispatches: print the memory ranges that they bind.
    #[arg(long, requires = "dispatches")]
    memory: bool,
    #[command(flatten)]
    options: crate::options::RunOptions,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(tokens) = args.dispatches {
        let executor = args.options.executor(&args.model, 1)?;
        let batch = BatchShape { tokens, segments: 1, outputs: 1 };
        let fused = executor.plan().persistent.filter(|_| tokens == 1);
        let planned = match fused.map(|workgroups| executor.planned_fused(&batch, workgroups)) {
            Some(Err(RuntimeError::Unfused(why))) => {
                eprintln!("one dispatch per op: {why}");
                executor.planned(&batch)?
            }
            Some(fused) => fused?,
            None => executor.planned(&batch)?,
        };
        let Planned { recording, memory } = planned;
        if args.memory {
            out!("{memory}");
        } else {
            out!("{recording}");
        }
        eprintln!(
            "{} dispatches, {} kernels, {} activation slots",
            recording.dispatches.len(),
            recording.kernels.len(),
            recording.arena.slot_len.len()
        );
        return Ok(());
    }
    let shape = match args.model.to_str().and_then(ModelShape::preset) {
        Some(shape) => shape,
        None => *args.options.session()?.open_file(&args.model)?.shape(),
    };
    let mut graph = rwkv7::forward(&shape)?;
    let fusions: FusionSet = match args.fuse.as_slice() {
        [all] if all == "all" => Fusion::ALL.into(),
        names => {
            let fusion =
                |name: &String| name.parse().map_err(|why: rewrite::UnknownFusion| WrongUsage(why.to_string()));
            names.iter().map(fusion).collect::<Result<_, _>>()?
        }
    };
    for report in rewrite::apply(&mut graph, &fusions)? {
        eprintln!("{}: {} places fused, {} refused", report.fusion, report.applied, report.refused.len());
        for (role, layer, why) in report.refused.iter().take(3) {
            eprintln!("  {role}, layer {layer:?}: {why}");
        }
    }
    if args.dot {
        out!("{}", dot(&graph));
    } else {
        out!("{graph}");
    }
    Ok(())
}
