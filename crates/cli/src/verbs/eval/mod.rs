//! `wgoose eval`

mod table;

use crate::failure::{Failure, Interrupted, WrongUsage};
use crate::options::RunOptions;
use crate::progress::Moving;
use crate::signals::{OnSignal, Signal};
use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::str::FromStr;
use table::table;
use wgoose_runtime::CancelToken;
use wgoose_session::eval::{EvalError, EvalOptions, evaluate};
use wgoose_session::{Backend, PlanChoice, Session};

/// Measure how well a model predicts a text: bits per byte and perplexity. With --against, also its divergence from
/// another model, quantisation or plan.
///
/// Every token is scored, because end-of-text (token 0) is read first. Memory does not grow with the text. +- is the
/// standard error, computed as if tokens were independent. Ctrl-C prints the result so far.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose eval model.gguf --text text.txt
  wgoose eval small.gguf --text text.txt --against large.gguf
  wgoose eval model.gguf --text text.txt --against reference --limit 1000")]
pub(crate) struct Args {
    /// Model file, or a folder with the shards of one.
    model: PathBuf,
    /// Text file, read as bytes.
    #[arg(long)]
    text: PathBuf,
    /// Reset the state after this many tokens. Default: one state through the whole text.
    #[arg(long, value_name = "TOKENS")]
    context: Option<NonZeroUsize>,
    /// Stop after this many tokens.
    #[arg(long, value_name = "TOKENS")]
    limit: Option<NonZeroU64>,
    /// Compare with another model file, or with `reference`: the same model on the slow CPU reference.
    #[arg(long, value_name = "MODEL|reference")]
    against: Option<Against>,
    /// Plan of the --against model, as for --plan.
    #[arg(long, value_name = "FILE|default", requires = "against", value_parser = crate::options::plan_choice())]
    against_plan: Option<PlanChoice>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: RunOptions,
}

/// What to compare with.
#[derive(Clone)]
enum Against {
    Reference,
    Model(PathBuf),
}

impl FromStr for Against {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "reference" { Against::Reference } else { Against::Model(text.into()) })
    }
}

impl Args {
    fn reference(&self) -> Result<Option<Session>, Failure> {
        match &self.against {
            None => Ok(None),
            Some(Against::Reference) if self.against_plan.is_some() => {
                let text = "the CPU reference has no plan: leave out --against-plan, or name a model in --against";
                Err(WrongUsage(text.into()).into())
            }
            Some(Against::Reference) => {
                let builder = Session::builder()
                    .backend(Backend::Cpu)
                    .ignore_unknown(self.options.ignore_unknown)
                    .vocabulary(self.options.vocab.clone().unwrap_or_default())
                    .adapter(self.options.adapter());
                Ok(Some(builder.open(&self.model)?))
            }
            Some(Against::Model(path)) => {
                let plan = self.against_plan.clone().unwrap_or(PlanChoice::Find);
                Ok(Some(self.options.session()?.plan(plan).adapter(None).open(path)?))
            }
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let fail = |e: std::io::Error| format!("{}: {e}", args.text.display());
    let mut text = wgoose_files::open_text(&args.text).map_err(fail)?;
    let len = text.byte_len();
    let mut reference = args.reference()?;
    let mut model = args.options.session()?.open(&args.model)?;
    let bar = Moving::bar(len, "{bytes}/{total_bytes} {elapsed} (left: {left}) {wide_msg}")?;
    // Ctrl-C ends the reading: what was measured until then is printed. A second one ends the program.
    let cancel = CancelToken::default();
    let by_signal = cancel.clone();
    let on_signal = OnSignal::call(move |signal| match by_signal.cancel() {
        false if signal == Signal::Interrupt => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    });
    let options = EvalOptions { context: args.context, limit: args.limit };
    let evaluation = evaluate(&mut model, reference.as_mut(), &mut text, &options, &mut |score| {
        bar.done(score.bytes);
        bar.say(&format!("{:.4} bits per byte", score.bits_per_byte()));
        cancel.flow()
    })
    .map_err(|e| match e {
        EvalError::Text(_) | EvalError::Empty => format!("{}: {e}", args.text.display()).into(),
        other => Failure::from(other),
    })?;
    drop((bar, on_signal));
    match args.json {
        true => outln!("{}", serde_json::to_string_pretty(&evaluation.json())?),
        false => outln!("{}", table(&evaluation)),
    }
    match cancel.is_cancelled() {
        true => Err(Interrupted(format!("{} of {len} bytes were read", evaluation.score.bytes)).into()),
        false => Ok(()),
    }
}
