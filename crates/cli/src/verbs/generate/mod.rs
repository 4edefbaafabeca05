//! `wgoose generate`: one text as it comes, or many as they end.

mod each;
mod one;

use crate::failure::Failure;
use crate::first_use::FirstUse;
use crate::options::RunOptions;
use crate::sampling::SamplingFlags;
use crate::texts::read_texts;
use crate::timeline::TimelineOptions;
use each::each;
use one::one;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;
use wgoose_session::GenerateOptions;
use wgoose_session::sampling::SamplerOptions;

/// Continue a prompt; text is printed as it comes. Several are continued together, each printed as it ends.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model file.
    model: PathBuf,
    /// Text to continue. Can be given many times.
    #[arg(long, required_unless_present = "prompts")]
    prompt: Vec<String>,
    /// Texts to continue: one a line, or JSON lines (strings, or objects with a "text") where the name ends in .jsonl.
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    prompts: Option<PathBuf>,
    /// Most prompts to continue at once.
    #[arg(long, value_name = "N", default_value = "32")]
    together: NonZeroUsize,
    #[command(flatten)]
    sampling: SamplingFlags,
    #[command(flatten)]
    first_use: FirstUse,
    #[command(flatten)]
    timeline: TimelineOptions,
    #[command(flatten)]
    options: RunOptions,
}

pub(crate) fn run(args: &Args, started: Instant) -> Result<(), Failure> {
    let prompts = match &args.prompts {
        Some(file) => read_texts(file)?,
        None => args.prompt.clone(),
    };
    let sampling = SamplerOptions { top_p: 0.5, ..SamplerOptions::default() };
    let options = args.sampling.options(GenerateOptions { sampling, ..GenerateOptions::default() });
    let timeline = args.timeline.begin();
    let builder = args.options.session()?.timeline(timeline.clone());
    let mut session = args.first_use.open(builder, &args.model, &args.options, started)?;
    match &prompts[..] {
        [prompt] => one(&mut session, prompt, &options)?,
        prompts => each(&mut session, prompts, &options, args.together.get())?,
    }
    args.timeline.write(&timeline, started)
}
