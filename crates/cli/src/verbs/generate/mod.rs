//! `wgoose generate`: one text as it comes, or many as they end.

mod each;
mod input;
mod one;

use crate::failure::{Failure, WrongUsage};
use crate::first_use::FirstUse;
use crate::options::{RunOptions, place};
use crate::sampling::SamplingFlags;
use crate::structure::StructureFlags;
use crate::timeline::TimelineOptions;
use each::each;
use one::one;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;
use wgoose_session::GenerateOptions;
use wgoose_session::sampling::SamplerOptions;

/// Generate text from a prompt, streamed; or from many prompts in a batch.
///
/// The prompt is --prompt, --file or standard input. No beginning-of-text token is added to the prompt. Several prompts
/// are decoded together (continuous batching), and each result is printed when it ends as a line of JSON: the index of
/// the prompt, its "id" if the file has one, text, tokens and finish_reason (stop or length).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose generate model.gguf -p \"The goose flies over\" -n 64
  wgoose generate model.gguf --file article.txt --stop '\\n\\n'
  cat article.txt | wgoose generate model.gguf -n 200 -t 0.7
  wgoose generate model.gguf --file long.txt -n 0 --save-state long.st
  wgoose generate model.gguf --state long.st -p \"In short:\"
  wgoose generate model.gguf --prompts questions.jsonl > answers.jsonl
  wgoose generate model.gguf -p \"A goose in JSON:\" --json-schema bird.json")]
pub(crate) struct Args {
    /// Model file, or a folder with the shards of one.
    model: PathBuf,
    /// Prompt to continue. Repeatable.
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Vec<String>,
    /// Read the prompt from this file, without the end of its last line; - is standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with = "prompt")]
    file: Option<PathBuf>,
    /// File of prompts, one per line. In a .jsonl file each line is a JSON string or an object with "text". Blank lines
    /// are skipped.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "file"])]
    prompts: Option<PathBuf>,
    /// Batch size: the most prompts that decode together.
    #[arg(long, value_name = "N", default_value = "32")]
    together: NonZeroUsize,
    /// Print the prompt before the generated text.
    #[arg(short, long, conflicts_with = "prompts")]
    echo: bool,
    /// Start from the state in this file: written by --save-state, `chat` or `dev logits`, or a tuned initial state.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Write the final state to this file; with -n 0, the state after the prompt.
    #[arg(long, value_name = "FILE", value_parser = place(), conflicts_with = "prompts")]
    save_state: Option<PathBuf>,
    #[command(flatten)]
    sampling: SamplingFlags,
    #[command(flatten)]
    structure: StructureFlags,
    #[command(flatten)]
    first_use: FirstUse,
    #[command(flatten)]
    timeline: TimelineOptions,
    #[command(flatten)]
    options: RunOptions,
}

/// What is done where no flag says otherwise.
pub(crate) fn defaults() -> GenerateOptions {
    let sampling = SamplerOptions { top_p: 0.5, ..SamplerOptions::default() };
    GenerateOptions { sampling, ..GenerateOptions::default() }
}

pub(crate) fn run(args: &Args, started: Instant) -> Result<(), Failure> {
    let prompts = args.prompts()?;
    if prompts.len() > 1 && (args.echo || args.save_state.is_some()) {
        return Err(
            WrongUsage("--echo and --save-state are for one prompt: leave them out, or the others".into()).into()
        );
    }
    let mut options = args.sampling.options(defaults());
    let timeline = args.timeline.begin();
    let builder = args.options.session()?.timeline(timeline.clone());
    let mut session = args.first_use.open(builder, &args.model, &args.options, started)?;
    args.sampling.check(session.model())?;
    options.grammar = args.structure.grammar(&session)?;
    if let Some(state) = &args.state {
        session.load_state(state)?;
    }
    match &prompts[..] {
        [prompt] if args.prompts.is_none() => {
            one(&mut session, &prompt.text, &options, args.echo, args.save_state.as_deref())?;
        }
        prompts => each(&mut session, prompts, &options, args.together.get())?,
    }
    args.timeline.write(&timeline, started)
}
