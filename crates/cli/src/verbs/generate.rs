//! `wgoose generate`

use crate::Failure;
use crate::options::RunOptions;
use crate::trace::TraceOptions;
use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;
use wgoose_session::GenerateOptions;
use wgoose_session::sampling::SamplerOptions;

/// Continue a prompt; text is printed as it comes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model file.
    model: PathBuf,
    /// Text to continue.
    #[arg(long)]
    prompt: String,
    /// Most tokens to generate.
    #[arg(long, default_value_t = 128)]
    max_tokens: usize,
    /// 0 is greedy.
    #[arg(long, default_value_t = 1.0)]
    temperature: f32,
    /// Smallest set of tokens whose probabilities reach this sum.
    #[arg(long, default_value_t = 0.5)]
    top_p: f32,
    /// Only the k likeliest tokens.
    #[arg(long)]
    top_k: Option<NonZeroUsize>,
    /// Same seed, plan and device: same text.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    trace: TraceOptions,
    #[command(flatten)]
    options: RunOptions,
}

pub(crate) fn run(args: &Args, started: Instant) -> Result<(), Failure> {
    let timeline = args.trace.timeline();
    let mut session = args.options.session().timeline(timeline.clone()).open(&args.model)?;
    let sampling =
        SamplerOptions { temperature: args.temperature, top_p: args.top_p, top_k: args.top_k, seed: args.seed };
    let options = GenerateOptions { sampling, max_tokens: args.max_tokens };
    let mut out = std::io::stdout().lock();
    let mut broken = None;
    let start = Instant::now();
    let mut first = None;
    let generated = session.generate(args.prompt.as_bytes(), &options, &mut |text| {
        first.get_or_insert_with(|| start.elapsed());
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(e) => {
                broken = Some(e);
                ControlFlow::Break(())
            }
        }
    })?;
    match broken {
        Some(e) => return Err(e.into()),
        None => writeln!(out)?,
    }
    let first = first.unwrap_or_default().as_secs_f64();
    let rest = start.elapsed().as_secs_f64() - first;
    let speed = generated.tokens.len().saturating_sub(1) as f64 / rest.max(1e-9);
    eprintln!(
        "{} prompt tokens, first token after {:.0} ms, {} tokens generated, {speed:.1} tokens/s",
        generated.prompt_tokens,
        first * 1e3,
        generated.tokens.len(),
    );
    args.trace.write(&timeline, started)
}
